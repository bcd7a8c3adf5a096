"""Read the messages in the folder ``slots`` from its data files alone, without changing anything."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry, parse_second
from mocketmq_compat.delay.directories.delay_directory import QUARANTINE
from mocketmq_compat.delay.inspection import (
    UNFINISHED,
    FolderProblem,
    InspectionProgress,
    KeptMessage,
    readable,
)
from mocketmq_compat.delay.known_parts import KNOWN
from mocketmq_compat.delay.parked_message import message_in
from mocketmq_compat.delay.slots import data_file
from mocketmq_compat.delay.slots.data_file import PREFIX_BYTES, SlotDamage, SlotRecord
from mocketmq_compat.delay.slots.index_file import HEADER_BYTES, header


def holds_messages(root: Path) -> bool:
    """Return whether any day has a record, pending or settled. Raises OSError."""
    return any(path.stat().st_size > HEADER_BYTES for path in _days(root))


def pending_entries(root: Path) -> Iterator[Entry]:
    """Yield the entry in the head of each pending record."""
    for path in _days(root):
        with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
            for part in data_file.records(file.fileno()):
                if isinstance(part, SlotRecord) and not part.is_done:
                    yield part.entry


def read_messages(root: Path, progress: InspectionProgress) -> Iterator[KeptMessage | FolderProblem]:
    """Yield each pending record, and damaged parts. Raises OSError."""
    yield from _strays(root)
    done = 0
    for path in _days(root):
        with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
            for each in _read(f"data/{path.name}", int(path.name), file.fileno()):
                progress("reading messages", done, None)
                done += 1
                yield each


def _read(name: str, day: int, fd: int) -> Iterator[KeptMessage | FolderProblem]:
    """Like ``read_messages``, for one day's data."""
    begin = os.pread(fd, HEADER_BYTES, 0)
    if begin != header("data", day):
        reason = "its header is not that of this version and day"
        yield FolderProblem(name, "version" if begin.strip(b"\0") else UNFINISHED, reason)
        return
    for part in data_file.records(fd):
        if isinstance(part, SlotDamage):
            kind = UNFINISHED if data_file.is_begun(fd, part) else "damaged"
            yield FolderProblem(f"{name}:{part.offset}", kind, f"{part.size} bytes are not a record")
        elif not part.is_done:
            file = f"{name}/{part.entry.name}"
            try:
                content = os.pread(fd, part.size - PREFIX_BYTES, part.offset + PREFIX_BYTES)
                yield KeptMessage(file, message_in(part.entry, content))
            except DamagedFileError as error:
                yield FolderProblem(file, error.kind, str(error))


def _strays(root: Path) -> Iterator[FolderProblem]:
    own = ("data", "index", QUARANTINE)
    others = {path for path in root.iterdir() if path.name not in own and not path.name.startswith(KNOWN)}
    for folder in ("data", "index"):
        if (root / folder).is_dir():
            others |= {path for path in (root / folder).iterdir() if parse_second(path.name) is None}
    for path in sorted(others):
        kind = UNFINISHED if path.suffix == ".tmp" else "stray"
        yield FolderProblem(
            readable(str(path.relative_to(root))), kind, "it is not a file of the scheme slots"
        )


def _days(root: Path) -> list[Path]:
    if not (root / "data").is_dir():
        return []
    return sorted(path for path in (root / "data").iterdir() if parse_second(path.name) is not None)
