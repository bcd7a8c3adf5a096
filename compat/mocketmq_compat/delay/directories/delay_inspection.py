"""Inspect a delay directory: list, find and check its files.

Inspection changes nothing, so a broker may be using the directory. A file that disappears in the meantime was
delivered, and is not counted.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mocketmq.message.message_id import Identity, key_hash, log_offset_of
from mocketmq_compat.delay.delayed_file import (
    DamagedFileError,
    DelayedFile,
    Entry,
    decode,
    parse_name,
    parse_second,
)
from mocketmq_compat.delay.directories.delay_directory import TEMPORARY
from mocketmq_compat.delay.inspection import (
    FolderInspector,
    FolderProblem,
    Inspection,
    InspectionProgress,
    KeptMessage,
    Page,
    quarantined,
    readable,
)
from mocketmq_compat.delay.known_parts import KNOWN
from mocketmq_compat.delay.parked_message import check_deliverable
from mocketmq_compat.delay.quarantine import QUARANTINE


class FileLocation(NamedTuple):
    """The location of a file, which is the second of its directory, and its name."""

    second: int
    name: str

    @property
    def entry(self) -> Entry | None:
        """The entry with this name; None for a foreign name."""
        entry = parse_name(self.name)
        return entry if entry is not None and entry.second == self.second else None

    @property
    def path(self) -> str:
        """The printable path below the delay directory."""
        return readable(f"{self.second}/{self.name}")


class Listing(NamedTuple):
    """The files in a delay directory, judged only by their names."""

    places: list[FileLocation]
    strays: list[FolderProblem]  # files that cannot be messages
    quarantined: list[FolderProblem]
    temporary: int  # files being written, or left by a kill, which the next start removes


class DirectoryInspector(FolderInspector):
    """Reads as few files as possible, because due times, numbers and key hashes are in the names."""

    def first_messages(self, limit: int, *, topic: str | None = None, after: Entry | None = None) -> Page:
        listing = list_files(self._root, self._progress)
        page = Page([], [*listing.strays])
        for each in in_order(self._root, listing.places, self._progress, after):
            if isinstance(each, FolderProblem):
                page.problems.append(each)
            elif topic in (None, each.message.header.topic):
                page.messages.append(each)
                if len(page.messages) == limit:
                    break
        return page

    def find_messages(self, wanted: str) -> list[KeptMessage | FolderProblem]:
        return find_files(self._root, list_files(self._root, self._progress).places, wanted)

    def verify(self) -> Inspection:
        """Like :meth:`FolderInspector.verify`; also checks names and locations."""
        return verify(self._root, self._progress)


def list_files(root: Path, progress: InspectionProgress) -> Listing:
    """List the files below ``root``, in order of seconds and names. Raises OSError."""
    listing = Listing([], [], [], 0)
    temporary = 0
    with os.scandir(root) as directories:
        for directory in directories:
            second = parse_second(directory.name)
            is_directory = directory.is_dir(follow_symlinks=False)
            if is_directory and directory.name == QUARANTINE:
                listing.quarantined.extend(quarantined(root))
            elif is_directory and second is not None:
                for name, is_file in _files_in(directory.path):
                    if not is_file:
                        path = FileLocation(second, name).path
                        listing.strays.append(
                            FolderProblem(path, "stray", "it is a directory, a link or a device")
                        )
                    elif _is_temporary(name):
                        temporary += 1
                    else:
                        listing.places.append(FileLocation(second, name))
                progress("looking for files", len(listing.places), None)
            elif not directory.name.startswith(KNOWN):
                reason = "it is not a directory named by an epoch second"
                listing.strays.append(FolderProblem(readable(directory.name), "stray", reason))
    for each in (listing.places, listing.strays, listing.quarantined):
        each.sort()
    return listing._replace(temporary=temporary)


def read(root: Path, place: FileLocation) -> bytes | None:
    """Read a file; None when it is gone. Raises DamagedFileError when it cannot be read."""
    try:
        return (root / str(place.second) / place.name).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedFileError("unreadable", f"the file cannot be read: {error.strerror}") from None


def deliverable(content: bytes) -> DelayedFile:
    """Decode a file in any location. Raises DamagedFileError when its message cannot be delivered."""
    file = decode(content)
    check_deliverable(file)
    return file


def message_in(place: FileLocation, content: bytes) -> KeptMessage:
    """Decode a file. Raises DamagedFileError when its message would not be delivered from this location.

    The broker renames a file with a foreign name, and delivers it.
    """
    message = KeptMessage(place.path, deliverable(content))
    if place.entry not in (None, message.entry):
        raise DamagedFileError("name", _belongs(message.entry))
    return message


def in_order(
    root: Path, places: Sequence[FileLocation], progress: InspectionProgress, after: Entry | None = None
) -> Iterator[KeptMessage | FolderProblem]:
    """Yield the messages after ``after`` in order of due time, and the damaged files among them.

    Reads files one by one, first the files with foreign names, whose due time is only in their content.
    """
    turns: list[tuple[Entry, FileLocation]] = []
    for place in places:
        entry = place.entry
        if entry is None:
            found = _message_or_problem(root, place)
            if isinstance(found, FolderProblem):
                yield found
            if not isinstance(found, KeptMessage):
                continue
            entry = found.entry
        if after is None or entry > after:
            turns.append((entry, place))
    for done, (_, place) in enumerate(sorted(turns)):
        progress("reading files", done, len(turns))
        found = _message_or_problem(root, place)
        if found is not None:
            yield found


def find_files(root: Path, places: Iterable[FileLocation], wanted: str) -> list[KeptMessage | FolderProblem]:
    """Find messages by unique key, offset message id, or file name.

    A damaged file is found by its name, and by the number and key hash in the name.
    """
    number, digest = log_offset_of(wanted), key_hash(wanted)
    found: list[KeptMessage | FolderProblem] = []
    for place in places:
        entry = place.entry
        is_named = wanted in (place.name, f"{place.second}/{place.name}")
        if is_named or entry is None or entry.key_hash == digest or entry.number == number:
            each = _message_or_problem(root, place)
            if isinstance(each, KeptMessage):
                if is_named or each.has_id(wanted):
                    found.append(each)
            elif each is not None and (is_named or entry is not None):
                found.append(each)
    return found


def verify(root: Path, progress: InspectionProgress) -> Inspection:
    """Check each file's content, name and location, and whether another file holds the same message.

    Raises OSError when the directory cannot be read.
    """
    listing = list_files(root, progress)
    problems = [*listing.strays]
    seen: dict[Identity, FileLocation] = {}
    topics: Counter[str] = Counter()
    dues_ms: list[int] = []
    files = size = 0
    for done, place in enumerate(listing.places):
        progress("checking files", done, len(listing.places))
        try:
            content = read(root, place)
            if content is None:
                continue
            files += 1
            size += len(content)
            message = _only_message_in(place, content, seen)
        except DamagedFileError as error:
            problems.append(FolderProblem(place.path, error.kind, str(error)))
        else:
            topics[message.message.header.topic] += 1
            dues_ms.append(message.entry.due_ms)
    return Inspection(
        files,
        len(dues_ms),
        size,
        min(dues_ms, default=None),
        max(dues_ms, default=None),
        dict(sorted(topics.items())),
        sorted(problems),
        listing.quarantined,
        listing.temporary,
    )


def _only_message_in(place: FileLocation, content: bytes, seen: dict[Identity, FileLocation]) -> KeptMessage:
    """Like ``message_in``; also raises DamagedFileError for a repeated message or a wrong name."""
    message = message_in(place, content)
    first = seen.setdefault(message.entry.identity, place)
    if first is not place:
        raise DamagedFileError("duplicate", f"{first.path} is the same message")
    if place.entry is None:
        raise DamagedFileError("name", _belongs(message.entry))
    return message


def _belongs(entry: Entry) -> str:
    return f"its header belongs to file {entry.second}/{entry.name}"


def _message_or_problem(root: Path, place: FileLocation) -> KeptMessage | FolderProblem | None:
    try:
        content = read(root, place)
        return None if content is None else message_in(place, content)
    except DamagedFileError as error:
        return FolderProblem(place.path, error.kind, str(error))


def _files_in(directory: str) -> list[tuple[str, bool]]:
    """Return each name with whether it is a file."""
    try:
        with os.scandir(directory) as files:
            return [(file.name, file.is_file(follow_symlinks=False)) for file in files]
    except FileNotFoundError:
        return []


def _is_temporary(name: str) -> bool:
    return name.endswith(TEMPORARY) and parse_name(name.removesuffix(TEMPORARY)) is not None


def holds_messages(root: Path) -> bool:
    """Return whether any second's directory has entries."""
    for second in root.iterdir():
        if parse_second(second.name) is not None and second.is_dir() and any(second.iterdir()):
            return True
    return False


def pending_entries(root: Path) -> Iterator[Entry]:
    """Yield the entry in each file's name."""
    return (place.entry for place in list_files(root, lambda *_: None).places if place.entry is not None)


def read_messages(root: Path, progress: InspectionProgress) -> Iterator[KeptMessage | FolderProblem]:
    """Yield each file's message, whatever its name and directory, and damaged files. Raises OSError."""
    listing = list_files(root, progress)
    yield from listing.strays
    for done, place in enumerate(listing.places):
        progress("importing files", done, len(listing.places))
        try:
            content = read(root, place)
            if content is not None:
                yield KeptMessage(place.path, deliverable(content))
        except DamagedFileError as error:
            yield FolderProblem(place.path, error.kind, str(error))
