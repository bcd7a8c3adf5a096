"""Read the messages in the folder ``sorted`` without changing anything; needs the extra ``sorted``."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from mocketmq.errors import StoreUnavailableError
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry
from mocketmq_compat.delay.inspection import FolderProblem, InspectionProgress, KeptMessage
from mocketmq_compat.delay.parked_message import message_in

if TYPE_CHECKING:
    from mocketmq_compat.delay.sorted.sorted_store import SortedStore


def sorted_store(root: Path, *, reads_only: bool = False) -> "SortedStore":
    """Open the folder. Raises OSError, and StoreUnavailableError without the extra."""
    try:
        from mocketmq_compat.delay.sorted.sorted_store import SortedStore  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise StoreUnavailableError(
            f"{error.name} is not installed: install mocketmq with its extra 'sorted'"
        ) from error
    return SortedStore(root, reads_only=reads_only)


def holds_messages(root: Path) -> bool:
    """Return whether any record is pending; True if the folder cannot be read."""
    if not (root / "db").is_dir():
        return False
    try:
        with closing(sorted_store(root, reads_only=True)) as store:
            return store.count > 0
    except StoreUnavailableError:
        return True


def pending_entries(root: Path) -> Iterator[Entry]:
    """Yield the entry in the key of each pending record."""
    if (root / "db").is_dir():
        with closing(sorted_store(root, reads_only=True)) as store:
            yield from store.all()


def read_messages(root: Path, progress: InspectionProgress) -> Iterator[KeptMessage | FolderProblem]:
    """Yield each pending or damaged record. Raises OSError."""
    if not (root / "db").is_dir():
        return
    with closing(sorted_store(root, reads_only=True)) as store:
        for done, entry in enumerate(store.all()):
            progress("reading messages", done, store.count)
            try:
                yield KeptMessage(entry.name, message_in(entry, store.read(entry)))
            except DamagedFileError as error:
                yield FolderProblem(entry.name, error.kind, str(error))
