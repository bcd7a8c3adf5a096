"""Checks the data file of a day, and repairs it."""

import os
from pathlib import Path

from mocketmq_compat.delay.slots import data_file, index_file
from mocketmq_compat.delay.slots.data_file import SlotDamage, SlotRecord
from mocketmq_compat.delay.slots.index_file import HEADER_BYTES
from mocketmq_compat.delay.slots.open_files import OpenFiles
from mocketmq_compat.delay.slots.quarantine import Quarantine


def data_name(day: int) -> str:
    """Return the path of a day's data file in the folder of the scheme."""
    return f"data/{day}"


class DayData:
    """The data files of the store in ``root``. What is damaged goes to the quarantine."""

    def __init__(self, root: Path, files: OpenFiles, quarantine: Quarantine) -> None:
        self._root = root
        self._files = files
        self._quarantine = quarantine

    def is_ours(self, day: int) -> bool:
        """Return whether the file has the header of this version and day. Quarantines any other file."""
        name = data_name(day)
        found = os.pread(self._files.read(name), HEADER_BYTES, 0)
        if found == index_file.header("data", day):
            return True
        self._files.close_file(name)
        if found.strip(b"\0"):
            reason = "its header is not that of this version and day"
            (self._root / name).rename(self._quarantine.place_for(name, "version", reason))
        else:
            self._files.remove_file(name)  # the power failed while it was being created
        return False

    def drop_damage(self, day: int) -> None:
        """Rewrite the file without its damaged parts, if it has any."""
        name = data_name(day)
        fd = self._files.read(name)
        if not any(isinstance(part, SlotDamage) for part in data_file.records(fd)):
            return
        temporary = self._root / f"{name}.tmp"
        with temporary.open("wb") as file:
            file.write(os.pread(fd, HEADER_BYTES, 0))
            for part in data_file.records(fd):
                content = os.pread(fd, part.size, part.offset)
                if isinstance(part, SlotRecord):
                    file.write(content)
                else:
                    kind = "torn" if content.startswith(data_file.MAGIC) else "stray"
                    reason = f"{part.size} bytes at {part.offset} are not a record"
                    place = self._quarantine.place_for(f"{name}-{part.offset}", kind, reason)
                    place.write_bytes(content)
            file.flush()
            os.fsync(file.fileno())
        self._files.replace(name, temporary)
