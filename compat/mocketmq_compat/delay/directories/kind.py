"""Second directories as one of the delay schemes: one file per message in a directory per second.

The layout is that of the broker patch (docs/protocol/aliyun.md §3.3, D-10), without its weaknesses (§3.5).
"""

from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.schedule.timed_scheme import TimedScheme
from mocketmq.settings import Settings
from mocketmq_compat.delay.directories.delay_directory import BLOCK_BYTES, FOLDER, SCHEME
from mocketmq_compat.delay.directories.delay_inspection import DirectoryInspector
from mocketmq_compat.delay.directories.directory_store import DirectoryStore
from mocketmq_compat.delay.directories.dongwo import Dongwo, Scans
from mocketmq_compat.delay.directories.kept_files import holds_files, new_files, read_files
from mocketmq_compat.delay.opening import open_records
from mocketmq_compat.delay.scheme_kind import SchemeKind
from mocketmq_compat.delay.store import DelayStore
from mocketmq_compat.delay.stored_scheme import StoredScheme


async def open_directories(settings: Settings, context: SchemeContext) -> TimedScheme:
    """Second directories, or Dongwo; what waits there is found. Raises a StoreError."""

    def scheme_over(store: DelayStore) -> StoredScheme:
        if settings.start_deliver_time == "dongwo":
            return Dongwo("dongwo", context, settings, store, Scans(context.started_us))
        return StoredScheme(SCHEME, context, settings, store)

    return await open_records(settings, FOLDER, DirectoryStore, scheme_over, BLOCK_BYTES)


KIND = SchemeKind(open_directories, holds_files, read_files, new_files, DirectoryInspector)
