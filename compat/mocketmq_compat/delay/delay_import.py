"""Import the messages of another delay directory into a data directory that no broker uses."""

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from mocketmq.errors import StoreUnavailableError
from mocketmq.message.message_id import Identity
from mocketmq.store.lock import DirectoryLock
from mocketmq_compat.delay.delay_directory import FOLDER, DelayDirectory
from mocketmq_compat.delay.delay_inspection import (
    FileLocation,
    InspectionProgress,
    Trouble,
    deliverable,
    list_files,
    message_in,
    read,
)
from mocketmq_compat.delay.delayed_file import DamagedFileError, DelayedFile, Entry


class Imported(NamedTuple):
    """What was done with the files of the source."""

    imported: int  # new messages
    bytes: int  # of content of these
    already_there: int
    troubles: list[Trouble]  # files that were not imported


def import_files(data: Path, source: Path, progress: InspectionProgress) -> Imported:
    """Copy the messages of the delay directory ``source`` into that of the data directory ``data``.

    A message keeps its identity: a second import changes nothing, and a broker that has delivered the message
    refuses it. A damaged file of the same identity goes into the quarantine. Durable on
    return. Raises StoreLockedError while a broker owns ``data``, StoreUnavailableError for any OSError.
    """
    with closing(DirectoryLock(data)):
        try:
            with closing(DelayDirectory(data / FOLDER)) as target:
                return _Import(target, progress).run(source)
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise StoreUnavailableError(
                f"the import is not complete, {error.strerror or error}{where}; it can be repeated"
            ) from error


class _Import:
    def __init__(self, target: DelayDirectory, progress: InspectionProgress) -> None:
        self._target = target
        self._progress = progress
        self._there: dict[Identity, FileLocation] = {}

    def run(self, source: Path) -> Imported:
        listing = list_files(source, self._progress)
        self._look_around()
        saved: list[Entry] = []
        troubles = [*listing.strays]
        size = already_there = 0
        for done, place in enumerate(listing.places):
            self._progress("importing files", done, len(listing.places))
            try:
                content = read(source, place)
                if content is None:
                    continue
                file = deliverable(content)
                if self._has(file):
                    already_there += 1
                    continue
            except DamagedFileError as error:
                troubles.append(Trouble(place.path, error.kind, str(error)))
                continue
            entry = file.header.entry
            self._target.write(entry, content)
            self._there[entry.identity] = FileLocation(entry.second, entry.name)
            saved.append(entry)
            size += len(content)
        self._target.sync(saved)
        return Imported(len(saved), size, already_there, sorted(troubles))

    def _look_around(self) -> None:
        """Learn which messages are there: from the files' names, or from their contents."""
        for place in list_files(self._target.root, self._progress).places:
            entry = place.entry or self._entry_in(place)
            if entry is not None:
                self._there[entry.identity] = place

    def _entry_in(self, place: FileLocation) -> Entry | None:
        try:
            content = read(self._target.root, place)
            return None if content is None else deliverable(content).header.entry
        except DamagedFileError:
            return None

    def _has(self, file: DelayedFile) -> bool:
        """Whether the message is there. Raises DamagedFileError for another message of the same identity."""
        place = self._there.get(file.header.entry.identity)
        if place is None:
            return False
        try:
            content = read(self._target.root, place)
            if content is None:
                return False
            there = message_in(place, content).file
        except DamagedFileError as error:
            self._target.quarantine(place.second, place.name, str(error))
            return False
        if there != file:
            raise DamagedFileError("conflict", f"{place.path} is another message with the same identity")
        return True
