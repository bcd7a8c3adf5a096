"""The messages of a delay directory that no broker uses: read and added one by one."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from mocketmq.message.message_id import Identity
from mocketmq_compat.delay.delayed_file import DamagedFileError, DelayedFile, Entry, encode, parse_second
from mocketmq_compat.delay.directories.delay_directory import DelayDirectory
from mocketmq_compat.delay.directories.delay_inspection import (
    FileLocation,
    deliverable,
    list_files,
    message_in,
    read,
)
from mocketmq_compat.delay.scheme_kind import InspectionProgress, KeptMessage, Trouble


def holds_files(root: Path) -> bool:
    """Whether a second's directory holds anything."""
    for second in root.iterdir():
        if parse_second(second.name) is not None and second.is_dir() and any(second.iterdir()):
            return True
    return False


@contextmanager
def new_files(root: Path, progress: InspectionProgress) -> Iterator["NewFiles"]:
    """Open the directory, and make it if it is missing. Raises OSError."""
    with closing(DelayDirectory(root)) as directory:
        yield NewFiles(directory, progress)


class NewFiles:
    """As :class:`~mocketmq_compat.delay.scheme_kind.NewMessages`.

    A damaged file of the same identity as a new message goes into the quarantine.
    """

    def __init__(self, directory: DelayDirectory, progress: InspectionProgress) -> None:
        self._directory = directory
        self._progress = progress
        self._there: dict[Identity, FileLocation] | None = None
        self._saved: list[Entry] = []

    def add(self, message: DelayedFile) -> bool:
        """Write the message's file, unless it is there."""
        if self._there is None:
            self._there = self._look_around()
        if self._has(message):
            return False
        entry = message.header.entry
        self._directory.write(entry, encode(*message))
        self._there[entry.identity] = FileLocation(entry.second, entry.name)
        self._saved.append(entry)
        return True

    def sync(self) -> None:
        """Sync what was added."""
        self._directory.sync(self._saved)

    def _look_around(self) -> dict[Identity, FileLocation]:
        """Learn which messages are there: from the files' names, or from their contents."""
        there = {}
        for place in list_files(self._directory.root, self._progress).places:
            entry = place.entry or self._entry_in(place)
            if entry is not None:
                there[entry.identity] = place
        return there

    def _entry_in(self, place: FileLocation) -> Entry | None:
        try:
            content = read(self._directory.root, place)
            return None if content is None else deliverable(content).header.entry
        except DamagedFileError:
            return None

    def _has(self, file: DelayedFile) -> bool:
        """Whether the message is there. Raises DamagedFileError for another message of the same identity."""
        assert self._there is not None  # noqa: S101 - add has looked around
        place = self._there.get(file.header.entry.identity)
        if place is None:
            return False
        try:
            content = read(self._directory.root, place)
            if content is None:
                return False
            there = message_in(place, content).message
        except DamagedFileError as error:
            self._directory.quarantine(place.second, place.name, str(error))
            return False
        if there != file:
            raise DamagedFileError("conflict", f"{place.path} is another message with the same identity")
        return True


def read_files(root: Path, progress: InspectionProgress) -> Iterator[KeptMessage | Trouble]:
    """The message of each file, whatever its name and directory, and what is damaged. Raises OSError."""
    listing = list_files(root, progress)
    yield from listing.strays
    for done, place in enumerate(listing.places):
        progress("importing files", done, len(listing.places))
        try:
            content = read(root, place)
            if content is not None:
                yield KeptMessage(place.path, deliverable(content))
        except DamagedFileError as error:
            yield Trouble(place.path, error.kind, str(error))
