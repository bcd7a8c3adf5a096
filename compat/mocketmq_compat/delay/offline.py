"""Add messages to the folder of a scheme that no broker uses, and import those of other folders."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from mocketmq.errors import StoreUnavailableError
from mocketmq.message.message_id import Identity
from mocketmq.settings import TimedSchemeName
from mocketmq.store.lock import LOCK_FILE, DirectoryLock
from mocketmq_compat.delay.delayed_file import DamagedFileError, DelayedFile, Entry, encode
from mocketmq_compat.delay.inspection import InspectionProgress, Trouble
from mocketmq_compat.delay.parked_message import message_in
from mocketmq_compat.delay.schemes import DEFAULT, SCHEMES
from mocketmq_compat.delay.store import DelayStore

TAKEN_OVER = "taken-over"
"""The end of the name of a folder whose messages another scheme has taken over."""


@contextmanager
def adding(scheme: TimedSchemeName, root: Path, progress: InspectionProgress) -> Iterator["NewMessages"]:
    """Open the folder of a scheme, and make it if it is missing. Raises OSError, StoreUnavailableError."""
    with closing(SCHEMES[scheme].open_store(root)) as store:
        yield NewMessages(store, progress)


class NewMessages:
    """Adds messages to a store, one by one. Every method may raise OSError."""

    def __init__(self, store: DelayStore, progress: InspectionProgress) -> None:
        self._store = store
        self._progress = progress
        self._there: dict[Identity, Entry] | None = None
        self._added: list[Entry] = []

    def add(self, message: DelayedFile) -> bool:
        """Keep the message, durable after ``sync``; False if it is there already.

        One that is there and damaged is put aside. Raises DamagedFileError when another message has its
        identity.
        """
        if self._there is None:
            self._there = self._look_around()
        entry = message.header.entry
        if (there := self._there.get(entry.identity)) is not None:
            try:
                known = message_in(there, self._store.read(there))
            except DamagedFileError as error:
                self._store.put_aside(there, error.kind, str(error))
            else:
                if known != message:
                    reason = f"{there.name} is another message with the same identity"
                    raise DamagedFileError("conflict", reason)
                return False
        self._store.write(entry, encode(*message))
        self._there[entry.identity] = entry
        self._added.append(entry)
        return True

    def sync(self) -> None:
        """Make all that was added durable."""
        self._store.sync(self._added)

    def _look_around(self) -> dict[Identity, Entry]:
        self._store.adopt(0)
        there: dict[Identity, Entry] = {}
        for entry in self._store.all():
            there[entry.identity] = entry
            self._progress("looking for messages", len(there), self._store.count)
        return there


class SchemeFolder(NamedTuple):
    """A folder with messages, and its scheme."""

    scheme: TimedSchemeName
    folder: Path


class Imported(NamedTuple):
    """What was done with the messages of the source."""

    imported: int  # new messages
    bytes: int  # of content of these
    already_there: int
    troubles: list[Trouble]  # what was not imported


def sources_in(directory: Path) -> list[SchemeFolder]:
    """The schemes' folders in a data directory, or this folder of a scheme, known by what is in it.

    An empty one is known by its name. Raises OSError.
    """
    folders = [SchemeFolder(name, directory / row.folder) for name, row in SCHEMES.items()]
    found = [source for source in folders if source.folder.is_dir()]
    if found or (directory / LOCK_FILE).exists():
        return found
    scheme = next((name for name, row in SCHEMES.items() if row.holds_messages(directory)), None)
    named = next((name for name, row in SCHEMES.items() if row.folder == directory.resolve().name), DEFAULT)
    return [SchemeFolder(scheme or named, directory)]


def import_messages(
    data: Path, scheme: TimedSchemeName, sources: Sequence[SchemeFolder], progress: InspectionProgress
) -> Imported:
    """Copy the messages of ``sources`` into the folder of the ``scheme`` in the data directory ``data``.

    A message keeps its identity: a second import changes nothing, and a broker that has delivered the message
    refuses it. Durable on return. A source in ``data`` itself is taken over: its folder is renamed then, so
    that nothing waits twice. Raises StoreLockedError while a broker owns ``data``, StoreUnavailableError for
    any OSError.
    """
    with closing(DirectoryLock(data)):
        try:
            with adding(scheme, data / SCHEMES[scheme].folder, progress) as target:
                done = _import(target, sources, progress)
            for source in sources:
                if source.folder.parent.resolve() == data.resolve():
                    source.folder.rename(_free_name(source.folder))
            return done
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise StoreUnavailableError(
                f"the import is not complete, {error.strerror or error}{where}; it can be repeated"
            ) from error


def _import(target: NewMessages, sources: Sequence[SchemeFolder], progress: InspectionProgress) -> Imported:
    imported = size = already_there = 0
    troubles = []
    for source in sources:
        for each in SCHEMES[source.scheme].read_messages(source.folder, progress):
            if isinstance(each, Trouble):
                troubles.append(each)
                continue
            try:
                if target.add(each.message):
                    imported += 1
                    size += len(encode(*each.message))
                else:
                    already_there += 1
            except DamagedFileError as error:
                troubles.append(Trouble(each.file, error.kind, str(error)))
    target.sync()
    return Imported(imported, size, already_there, sorted(troubles))


def _free_name(folder: Path) -> Path:
    """A name for a folder that was taken over."""
    names: Iterator[Path] = (
        folder.with_name(f"{folder.name}.{TAKEN_OVER}{end}")
        for end in ("", *(f".{n}" for n in range(2, 1_000_000)))
    )
    return next(path for path in names if not path.exists())
