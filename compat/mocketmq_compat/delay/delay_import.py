"""Import the messages of another directory, of any scheme, into a data directory that no broker uses."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from mocketmq.errors import StoreUnavailableError
from mocketmq.settings import TimedSchemeName
from mocketmq.store.lock import LOCK_FILE, DirectoryLock
from mocketmq_compat.delay.delayed_file import DamagedFileError, encode
from mocketmq_compat.delay.scheme_kind import InspectionProgress, NewMessages, Trouble
from mocketmq_compat.delay.schemes import DEFAULT, SCHEMES

TAKEN_OVER = "taken-over"
"""The end of the name of a folder whose messages another scheme has taken over."""


class Source(NamedTuple):
    """A folder with messages, and its scheme."""

    scheme: TimedSchemeName
    folder: Path


class Imported(NamedTuple):
    """What was done with the messages of the source."""

    imported: int  # new messages
    bytes: int  # of content of these
    already_there: int
    troubles: list[Trouble]  # what was not imported


def sources_in(directory: Path) -> list[Source]:
    """The schemes' folders in a data directory, or this folder of a scheme, known by what is in it.

    An empty one is known by its name. Raises OSError.
    """
    folders = [Source(name, directory / place.folder) for name, place in SCHEMES.items()]
    found = [source for source in folders if source.folder.is_dir()]
    if found or (directory / LOCK_FILE).exists():
        return found
    scheme = next((name for name, place in SCHEMES.items() if place.kind.holds_messages(directory)), None)
    named = next(
        (name for name, place in SCHEMES.items() if place.folder == directory.resolve().name), DEFAULT
    )
    return [Source(scheme or named, directory)]


def import_messages(
    data: Path, scheme: TimedSchemeName, sources: Sequence[Source], progress: InspectionProgress
) -> Imported:
    """Copy the messages of ``sources`` into the folder of the ``scheme`` in the data directory ``data``.

    A message keeps its identity: a second import changes nothing, and a broker that has delivered the message
    refuses it. Durable on return. A source in ``data`` itself is taken over: its folder is renamed then, so
    that nothing waits twice. Raises StoreLockedError while a broker owns ``data``, StoreUnavailableError for
    any OSError.
    """
    with closing(DirectoryLock(data)):
        try:
            place = SCHEMES[scheme]
            with place.kind.new_messages(data / place.folder, progress) as target:
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


def _import(target: NewMessages, sources: Sequence[Source], progress: InspectionProgress) -> Imported:
    imported = size = already_there = 0
    troubles = []
    for source in sources:
        for each in SCHEMES[source.scheme].kind.read_messages(source.folder, progress):
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
