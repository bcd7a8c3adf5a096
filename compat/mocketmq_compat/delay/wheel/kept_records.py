"""The messages of the wheel's files that no broker uses: read and added one by one."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from mocketmq.message.message_id import Identity
from mocketmq_compat.delay.delayed_file import DamagedFileError, DelayedFile, Entry, encode
from mocketmq_compat.delay.directories.delay_inspection import readable
from mocketmq_compat.delay.parked_message import message_in
from mocketmq_compat.delay.scheme_kind import UNFINISHED, InspectionProgress, KeptMessage, Trouble
from mocketmq_compat.delay.wheel.record import Content, Damage, is_begun, records, waiting
from mocketmq_compat.delay.wheel.wheel_log import WheelLog
from mocketmq_compat.delay.wheel.wheel_storage import SUFFIX, DiskStorage, parse_start


def holds_records(root: Path) -> bool:
    """Whether there is any file of ten minutes."""
    return any(parse_start(path.name) is not None for path in root.iterdir())


def read_records(root: Path, progress: InspectionProgress) -> Iterator[KeptMessage | Trouble]:
    """Each message that waits, in order of files and arrival, and what is damaged. Raises OSError."""
    with closing(DiskStorage(root)) as storage:
        sizes, others = storage.sizes()
        reason = "it is not a file of the wheel"
        yield from (Trouble(readable(name), "stray", reason) for name in sorted(others))
        for done, start in enumerate(sorted(sizes)):
            progress("reading files", done, len(sizes))
            with suppress(FileNotFoundError), storage.open(start) as data:
                yield from _read(f"{start}{SUFFIX}", data)


def _read(name: str, data: Content) -> Iterator[KeptMessage | Trouble]:
    """The same of one file."""
    found = list(records(data))
    offsets = set(waiting(found).values())
    for each in found:
        if isinstance(each, Damage):
            is_unfinished = each.is_torn and is_begun(data, each.begin)
            reason = f"{each.end - each.begin} bytes are no record"
            yield Trouble(f"{name}:{each.begin}", UNFINISHED if is_unfinished else "damaged", reason)
        elif each.offset in offsets:
            file = f"{name}/{each.entry.name}"
            try:
                content = bytes(data[each.end - each.size : each.end])
                yield KeptMessage(file, message_in(each.entry, content))
            except DamagedFileError as error:
                yield Trouble(file, error.kind, str(error))


@contextmanager
def new_records(root: Path, progress: InspectionProgress) -> Iterator["NewRecords"]:
    """Open the files, mend them, and make the directory if it is missing. Raises OSError."""
    with closing(DiskStorage(root)) as storage:
        yield NewRecords(WheelLog(storage), progress)


class NewRecords:
    """As :class:`~mocketmq_compat.delay.scheme_kind.NewMessages`."""

    def __init__(self, log: WheelLog, progress: InspectionProgress) -> None:
        self._log = log
        self._there: dict[Identity, tuple[Entry, int]] = {}
        self._saved: list[Entry] = []
        log.open()
        for done, start in enumerate(log.starts):
            progress("looking for files", done, len(log.starts))
            for entry, offset in log.mend(start).items():
                self._there[entry.identity] = entry, offset

    def add(self, message: DelayedFile) -> bool:
        """Append the message, unless it is there; one whose content is damaged is replaced."""
        entry = message.header.entry
        if (there := self._there.get(entry.identity)) is not None:
            content = self._log.read(there[0], [there[1]])
            try:
                if message_in(there[0], content) == message:
                    return False
            except DamagedFileError as error:
                self._log.storage.put_aside(there[0].name, content, str(error))
                self._log.mark([there[0]])
            else:
                raise DamagedFileError(
                    "conflict", f"{there[0].name} is another message with the same identity"
                )
        self._log.write(entry, encode(*message))
        self._there[entry.identity] = entry, self._log.offsets.pop(entry)
        self._saved.append(entry)
        return True

    def sync(self) -> None:
        """Sync what was added."""
        self._log.sync(self._saved)
