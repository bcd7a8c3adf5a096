"""Offline changes to a delay scheme's folder that no broker uses: add messages, import other folders."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from mocketmq.errors import StoreUnavailableError
from mocketmq.message.message_id import Identity
from mocketmq.settings import TimedSchemeName
from mocketmq.store.lock import LOCK_FILE, DirectoryLock
from mocketmq_compat.delay.delayed_file import DamagedFileError, DelayedFile, Entry, encode
from mocketmq_compat.delay.inspection import UNFINISHED, FolderProblem, InspectionProgress
from mocketmq_compat.delay.parked_message import message_in
from mocketmq_compat.delay.schemes import DEFAULT, SCHEMES
from mocketmq_compat.delay.store import DelayStore

TAKEN_OVER = "taken-over"
"""Suffix of a folder whose messages another scheme has taken over."""


@contextmanager
def adding(scheme: TimedSchemeName, root: Path, progress: InspectionProgress) -> Iterator["NewMessages"]:
    """Open a scheme's folder, creating it if it is missing. Raises OSError, StoreUnavailableError."""
    with closing(SCHEMES[scheme].open_store(root)) as store:
        yield NewMessages(store, progress)


class NewMessages:
    """Adds messages to a store, one by one. Every method may raise OSError."""

    def __init__(self, store: DelayStore, progress: InspectionProgress) -> None:
        self._store = store
        self._progress = progress
        self._there: dict[Identity, Entry] | None = None
        self._added: list[Entry] = []

    def add_message(self, message: DelayedFile) -> bool:
        """Add the message, durable after ``sync``. Returns False if the store has it already.

        A damaged copy in the store is quarantined and replaced. Raises DamagedFileError when another message
        has its identity.
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
        self._store.sync(self._added)

    def _look_around(self) -> dict[Identity, Entry]:
        self._store.adopt(0)
        there: dict[Identity, Entry] = {}
        for entry in self._store.all():
            there[entry.identity] = entry
            self._progress("looking for messages", len(there), self._store.count)
        return there


class SchemeFolder(NamedTuple):
    """A folder with messages, and the scheme whose format it has."""

    scheme: TimedSchemeName
    folder: Path


class Imported(NamedTuple):
    """The result of an import."""

    imported: int  # number of new messages
    bytes: int  # size of their content
    already_there: int
    problems: list[FolderProblem]  # the messages that were not imported, with reasons


def sources_in(directory: Path) -> list[SchemeFolder]:
    """Find the schemes' folders in a data directory, or recognize ``directory`` as such a folder.

    A folder is recognized by its contents, or by its name if it is empty. Raises OSError.
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

    A message keeps its identity, so a second import changes nothing, and a broker that has delivered the
    message refuses it. Durable on return. A source folder in ``data`` itself is renamed afterwards, so that
    no message is pending twice. Raises StoreLockedError while a broker owns ``data``, StoreUnavailableError
    for any OSError.
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
                f"the import is incomplete: {error.strerror or error}{where}; repeat it"
            ) from error


def _import(target: NewMessages, sources: Sequence[SchemeFolder], progress: InspectionProgress) -> Imported:
    imported = size = already_there = 0
    problems = []
    for source in sources:
        for each in SCHEMES[source.scheme].read_messages(source.folder, progress):
            if isinstance(each, FolderProblem):
                if each.kind != UNFINISHED:
                    problems.append(each)
                continue
            try:
                if target.add_message(each.message):
                    imported += 1
                    size += len(encode(*each.message))
                else:
                    already_there += 1
            except DamagedFileError as error:
                problems.append(FolderProblem(each.file, error.kind, str(error)))
    target.sync()
    return Imported(imported, size, already_there, sorted(problems))


def _free_name(folder: Path) -> Path:
    """Choose a new name for a folder whose messages were taken over."""
    names: Iterator[Path] = (
        folder.with_name(f"{folder.name}.{TAKEN_OVER}{end}")
        for end in ("", *(f".{n}" for n in range(2, 1_000_000)))
    )
    return next(path for path in names if not path.exists())
