"""Read the messages in second directories without changing anything."""

from collections.abc import Iterator
from pathlib import Path

from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry, parse_second
from mocketmq_compat.delay.directories.delay_inspection import deliverable, list_files, read
from mocketmq_compat.delay.inspection import FolderProblem, InspectionProgress, KeptMessage


def holds_messages(root: Path) -> bool:
    """Return whether a second's directory holds anything."""
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
