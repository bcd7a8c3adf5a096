"""Slots as one of the delay schemes."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from mocketmq.errors import StoreUnavailableError
from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.schedule.timed_scheme import TimedScheme
from mocketmq.settings import Settings
from mocketmq.store.database import MEMORY
from mocketmq_compat.delay.records.memory_records import MemoryRecords
from mocketmq_compat.delay.records.new_records import NewRecords
from mocketmq_compat.delay.scheme_kind import InspectionProgress, SchemeKind
from mocketmq_compat.delay.slots.read_slots import holds_records, read_records
from mocketmq_compat.delay.slots.slot_store import FOLDER, SlotStore
from mocketmq_compat.delay.slots.slots import Slots


async def open_slots(settings: Settings, context: SchemeContext) -> TimedScheme:
    """Slots; what waits there is found. Raises a StoreError."""
    try:
        store = MemoryRecords() if settings.data == MEMORY else SlotStore(Path(settings.data) / FOLDER)
    except OSError as error:
        place = error.filename or settings.data
        raise StoreUnavailableError(
            f"{place} cannot be used for delayed messages: {error.strerror}"
        ) from error
    scheme = Slots("slots", context, settings, store)
    try:
        await scheme.load()
    except BaseException:
        await scheme.close()
        raise
    return scheme


@contextmanager
def new_records(root: Path, _progress: InspectionProgress) -> Iterator[NewRecords]:
    """Open the folder, and make it if it is missing. Raises OSError."""
    with closing(SlotStore(root)) as store:
        yield NewRecords(store)


KIND = SchemeKind(open_slots, holds_records, read_records, new_records)
