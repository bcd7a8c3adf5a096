"""Read the messages in the folder ``slots``, from its data alone, and change nothing."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mocketmq_compat.delay.delayed_file import DamagedFileError, parse_second
from mocketmq_compat.delay.directories.delay_directory import QUARANTINE
from mocketmq_compat.delay.inspection import UNFINISHED, InspectionProgress, KeptMessage, Trouble, readable
from mocketmq_compat.delay.parked_message import message_in
from mocketmq_compat.delay.slots import data_file
from mocketmq_compat.delay.slots.data_file import PREFIX_BYTES, SlotDamage
from mocketmq_compat.delay.slots.index_file import HEADER_BYTES, header


def holds_messages(root: Path) -> bool:
    """Whether any day has a record, be it done with or not. Raises OSError."""
    return any(path.stat().st_size > HEADER_BYTES for path in _days(root))


def read_messages(root: Path, progress: InspectionProgress) -> Iterator[KeptMessage | Trouble]:
    """Each record that waits, and what is damaged. Raises OSError."""
    yield from _strays(root)
    done = 0
    for path in _days(root):
        with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
            for each in _read(f"data/{path.name}", int(path.name), file.fileno()):
                progress("reading messages", done, None)
                done += 1
                yield each


def _read(name: str, day: int, fd: int) -> Iterator[KeptMessage | Trouble]:
    """The same of one day's data."""
    begin = os.pread(fd, HEADER_BYTES, 0)
    if begin != header("data", day):
        reason = "it does not begin as data of this version and day does"
        yield Trouble(name, "version" if begin.strip(b"\0") else UNFINISHED, reason)
        return
    for part in data_file.records(fd):
        if isinstance(part, SlotDamage):
            kind = UNFINISHED if data_file.is_begun(fd, part) else "damaged"
            yield Trouble(f"{name}:{part.offset}", kind, f"{part.size} bytes are no record")
        elif not part.is_done:
            file = f"{name}/{part.entry.name}"
            try:
                content = os.pread(fd, part.size - PREFIX_BYTES, part.offset + PREFIX_BYTES)
                yield KeptMessage(file, message_in(part.entry, content))
            except DamagedFileError as error:
                yield Trouble(file, error.kind, str(error))


def _strays(root: Path) -> Iterator[Trouble]:
    others = {path for path in root.iterdir() if path.name not in ("data", "index", QUARANTINE)}
    for folder in ("data", "index"):
        if (root / folder).is_dir():
            others |= {path for path in (root / folder).iterdir() if parse_second(path.name) is None}
    for path in sorted(others):
        kind = UNFINISHED if path.suffix == ".tmp" else "stray"
        yield Trouble(readable(str(path.relative_to(root))), kind, "it is not a file of the scheme slots")


def _days(root: Path) -> list[Path]:
    if not (root / "data").is_dir():
        return []
    return sorted(path for path in (root / "data").iterdir() if parse_second(path.name) is not None)
