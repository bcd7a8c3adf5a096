"""The scheme ``sorted`` as one of the delay schemes; it needs the extra of this name."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mocketmq.errors import StoreUnavailableError
from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.schedule.timed_scheme import TimedScheme
from mocketmq.settings import Settings
from mocketmq_compat.delay.delayed_file import DamagedFileError
from mocketmq_compat.delay.folder_inspector import FolderInspector
from mocketmq_compat.delay.new_records import NewRecords
from mocketmq_compat.delay.opening import open_records
from mocketmq_compat.delay.parked_message import message_in
from mocketmq_compat.delay.scheme_kind import InspectionProgress, KeptMessage, SchemeKind, Trouble
from mocketmq_compat.delay.stored_scheme import StoredScheme

if TYPE_CHECKING:
    from mocketmq_compat.delay.sorted.sorted_store import SortedStore


def sorted_store(root: Path, *, reads_only: bool = False) -> "SortedStore":
    """Open the folder. Raises OSError, StoreUnavailableError without the extra."""
    try:
        from mocketmq_compat.delay.sorted.sorted_store import SortedStore  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise StoreUnavailableError(
            f"{error.name} is not installed: install mocketmq with its extra 'sorted'"
        ) from error
    return SortedStore(root, reads_only=reads_only)


async def open_sorted(settings: Settings, context: SchemeContext) -> TimedScheme:
    """The scheme; what waits there is found. Raises a StoreError."""
    scheme_over = partial(StoredScheme, "sorted", context, settings)
    return await open_records(settings, "sorted", sorted_store, scheme_over)


def holds_records(root: Path) -> bool:
    """Whether any record waits; rather yes when that cannot be found out."""
    if not (root / "db").is_dir():
        return False
    try:
        with closing(sorted_store(root, reads_only=True)) as store:
            return store.count > 0
    except StoreUnavailableError:
        return True


def read_records(root: Path, progress: InspectionProgress) -> Iterator[KeptMessage | Trouble]:
    """Each record that waits, and what is damaged. Raises OSError."""
    if not (root / "db").is_dir():
        return
    with closing(sorted_store(root, reads_only=True)) as store:
        for done, entry in enumerate(store.all()):
            progress("reading messages", done, store.count)
            try:
                yield KeptMessage(entry.name, message_in(entry, store.read(entry)))
            except DamagedFileError as error:
                yield Trouble(entry.name, error.kind, str(error))


@contextmanager
def new_records(root: Path, _progress: InspectionProgress) -> Iterator[NewRecords]:
    """Open the folder, and make it if it is missing. Raises OSError."""
    with closing(sorted_store(root)) as store:
        yield NewRecords(store)


KIND = SchemeKind(
    open_sorted, holds_records, read_records, new_records, partial(FolderInspector, read_records)
)
