"""Read the messages in second directories, and change nothing."""

from collections.abc import Iterator
from pathlib import Path

from mocketmq_compat.delay.delayed_file import DamagedFileError, parse_second
from mocketmq_compat.delay.directories.delay_inspection import deliverable, list_files, read
from mocketmq_compat.delay.inspection import InspectionProgress, KeptMessage, Trouble


def holds_messages(root: Path) -> bool:
    """Whether a second's directory holds anything."""
    for second in root.iterdir():
        if parse_second(second.name) is not None and second.is_dir() and any(second.iterdir()):
            return True
    return False


def read_messages(root: Path, progress: InspectionProgress) -> Iterator[KeptMessage | Trouble]:
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
