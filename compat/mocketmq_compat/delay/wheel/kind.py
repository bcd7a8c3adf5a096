"""The wheel as one of the delay schemes."""

from functools import partial

from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.schedule.timed_scheme import TimedScheme
from mocketmq.settings import Settings
from mocketmq_compat.delay.folder_inspector import FolderInspector
from mocketmq_compat.delay.opening import open_records
from mocketmq_compat.delay.scheme_kind import SchemeKind
from mocketmq_compat.delay.stored_scheme import StoredScheme
from mocketmq_compat.delay.wheel.kept_records import holds_records, new_records, read_records
from mocketmq_compat.delay.wheel.wheel_folder import FOLDER
from mocketmq_compat.delay.wheel.wheel_store import WheelStore


async def open_wheel(settings: Settings, context: SchemeContext) -> TimedScheme:
    """The wheel; what waits in its files is found. Raises a StoreError."""
    scheme_over = partial(StoredScheme, "wheel", context, settings)
    return await open_records(settings, FOLDER, WheelStore, scheme_over)


KIND = SchemeKind(
    open_wheel, holds_records, read_records, new_records, partial(FolderInspector, read_records)
)
