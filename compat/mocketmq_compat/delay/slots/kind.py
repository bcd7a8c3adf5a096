"""Slots as one of the delay schemes."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.schedule.timed_scheme import TimedScheme
from mocketmq.settings import Settings
from mocketmq_compat.delay.folder_inspector import FolderInspector
from mocketmq_compat.delay.new_records import NewRecords
from mocketmq_compat.delay.opening import open_records
from mocketmq_compat.delay.scheme_kind import InspectionProgress, SchemeKind
from mocketmq_compat.delay.slots.check_indexes import check_indexes
from mocketmq_compat.delay.slots.read_slots import holds_records, read_records
from mocketmq_compat.delay.slots.slot_store import FOLDER, SlotStore
from mocketmq_compat.delay.slots.slots import Slots


async def open_slots(settings: Settings, context: SchemeContext) -> TimedScheme:
    """Slots; what waits there is found. Raises a StoreError."""
    return await open_records(settings, FOLDER, SlotStore, partial(Slots, "slots", context, settings))


@contextmanager
def new_records(root: Path, _progress: InspectionProgress) -> Iterator[NewRecords]:
    """Open the folder, and make it if it is missing. Raises OSError."""
    with closing(SlotStore(root)) as store:
        yield NewRecords(store)


KIND = SchemeKind(
    open_slots,
    holds_records,
    read_records,
    new_records,
    partial(FolderInspector, read_records, check=check_indexes),
)
