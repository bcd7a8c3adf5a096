"""The messages in a folder of the scheme ``slots`` that is not changed: from its data alone."""

import os
from collections.abc import Iterator
from pathlib import Path

from mocketmq_compat.delay.delayed_file import DamagedFileError, decode, parse_second
from mocketmq_compat.delay.parked_message import check_deliverable
from mocketmq_compat.delay.scheme_kind import InspectionProgress, KeptMessage, Trouble
from mocketmq_compat.delay.slots import data_file
from mocketmq_compat.delay.slots.data_file import PREFIX_BYTES, Damage
from mocketmq_compat.delay.slots.index_file import HEADER_BYTES


def holds_records(root: Path) -> bool:
    """Whether any day has a record, be it done with or not. Raises OSError."""
    return any(path.stat().st_size > HEADER_BYTES for path in _days(root))


def read_records(root: Path, progress: InspectionProgress) -> Iterator[KeptMessage | Trouble]:
    """Each record that waits, and what is damaged. Raises OSError."""
    done = 0
    for path in _days(root):
        with path.open("rb", buffering=0) as file:
            fd = file.fileno()
            for part in data_file.records(fd):
                place = f"data/{path.name} at {part.offset}"
                if isinstance(part, Damage):
                    yield Trouble(place, "stray", f"{part.size} bytes are no record")
                elif not part.mark:
                    progress("importing messages", done, None)
                    done += 1
                    content = os.pread(fd, part.size - PREFIX_BYTES, part.offset + PREFIX_BYTES)
                    try:
                        message = decode(content)
                        check_deliverable(message)
                        yield KeptMessage(place, message)
                    except DamagedFileError as error:
                        yield Trouble(place, error.kind, str(error))


def _days(root: Path) -> list[Path]:
    if not (root / "data").is_dir():
        return []
    return sorted(path for path in (root / "data").iterdir() if parse_second(path.name) is not None)
