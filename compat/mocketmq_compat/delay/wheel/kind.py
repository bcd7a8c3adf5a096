"""The wheel as one of the delay schemes."""

from functools import partial
from pathlib import Path

from mocketmq.errors import StoreUnavailableError
from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.schedule.timed_scheme import TimedScheme
from mocketmq.settings import Settings
from mocketmq.store.database import MEMORY
from mocketmq_compat.delay.folder_inspector import FolderInspector
from mocketmq_compat.delay.scheme_kind import SchemeKind
from mocketmq_compat.delay.wheel.kept_records import holds_records, new_records, read_records
from mocketmq_compat.delay.wheel.wheel import Wheel
from mocketmq_compat.delay.wheel.wheel_storage import DiskStorage, MemoryStorage, WheelStorage


async def open_wheel(settings: Settings, context: SchemeContext) -> TimedScheme:
    """The wheel; what waits in its files is found. Raises a StoreError."""
    try:
        storage: WheelStorage = (
            MemoryStorage() if settings.data == MEMORY else DiskStorage(Path(settings.data) / "wheel")
        )
    except OSError as error:
        raise StoreUnavailableError(f"the wheel's directory cannot be made: {error.strerror}") from error
    scheme = Wheel(context, settings, storage)
    try:
        await scheme.load()
    except BaseException:
        await scheme.close()
        raise
    return scheme


KIND = SchemeKind(
    open_wheel, holds_records, read_records, new_records, partial(FolderInspector, read_records)
)
