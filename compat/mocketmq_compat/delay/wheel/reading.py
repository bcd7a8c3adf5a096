"""Read the messages in the wheel's files without changing anything."""

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry
from mocketmq_compat.delay.inspection import (
    UNFINISHED,
    FolderProblem,
    InspectionProgress,
    KeptMessage,
    readable,
)
from mocketmq_compat.delay.parked_message import message_in
from mocketmq_compat.delay.wheel.record import Content, WheelDamage, is_begun, records, waiting
from mocketmq_compat.delay.wheel.wheel_folder import SUFFIX, WheelFolder, parse_start


def holds_messages(root: Path) -> bool:
    """Return whether there is any file of the wheel."""
    return any(parse_start(path.name) is not None for path in root.iterdir())


def pending_entries(root: Path) -> Iterator[Entry]:
    """Yield the entry in the head of each pending record."""
    with closing(WheelFolder(root)) as folder:
        for start in sorted(folder.stamps()[0]):
            with suppress(FileNotFoundError), folder.open(start) as data:
                yield from waiting(records(data))


def read_messages(root: Path, progress: InspectionProgress) -> Iterator[KeptMessage | FolderProblem]:
    """Yield each pending message, in order of files and arrival, and damaged parts. Raises OSError."""
    with closing(WheelFolder(root)) as folder:
        starts, others = folder.stamps()
        reason = "it is not a file of the scheme wheel"
        yield from (FolderProblem(readable(name), "stray", reason) for name in sorted(others))
        for done, start in enumerate(sorted(starts)):
            progress("reading files", done, len(starts))
            with suppress(FileNotFoundError), folder.open(start) as data:
                yield from _read(f"{start}{SUFFIX}", data)


def _read(name: str, data: Content) -> Iterator[KeptMessage | FolderProblem]:
    """Like ``read_messages``, for one file."""
    found = list(records(data))
    offsets = set(waiting(found).values())
    for each in found:
        if isinstance(each, WheelDamage):
            is_unfinished = each.is_torn and is_begun(data, each.begin)
            reason = f"{each.end - each.begin} bytes are not a record"
            yield FolderProblem(f"{name}:{each.begin}", UNFINISHED if is_unfinished else "damaged", reason)
        elif each.offset in offsets:
            file = f"{name}/{each.entry.name}"
            try:
                content = bytes(data[each.end - each.size : each.end])
                yield KeptMessage(file, message_in(each.entry, content))
            except DamagedFileError as error:
                yield FolderProblem(file, error.kind, str(error))
