"""Second directories: a delay scheme for any due time, one file per message in a directory per second.

The layout is that of the broker patch (docs/protocol/aliyun.md §3.3, D-10), without its weaknesses (§3.5).
A file is removed once its delivery is durable. One that is still there after a kill, or was copied back from
a backup, is known by its identity in ``timed_messages``, and removed instead of delivered.
"""

from collections.abc import Callable

from mocketmq.clock import US_PER_S
from mocketmq.schedule.scheme import FileFigures
from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.settings import Settings
from mocketmq_compat.delay.directories.delay_directory import SCHEME, DelayDirectory
from mocketmq_compat.delay.directories.delay_files import DelayFiles
from mocketmq_compat.delay.directories.memory_directory import MemoryDirectory
from mocketmq_compat.delay.entry_scheme import exact
from mocketmq_compat.delay.indexed_scheme import IndexedScheme


class SecondDirectories(IndexedScheme):
    """The scheme; ``fires_at`` gives the instant of delivery for a due time."""

    name = SCHEME

    def __init__(
        self,
        context: SchemeContext,
        settings: Settings,
        directory: DelayDirectory | MemoryDirectory,
        fires_at: Callable[[int], int] = exact,
    ) -> None:
        clock = context.store.clock
        self.files = DelayFiles(
            directory,
            settings.delay_sync,
            settings.delay_quota_bytes,
            self.settled,
            context.store.writer.synced,
            context.changed,
            context.numbers,
            lambda: clock.now_us() // US_PER_S,
        )
        super().__init__(context, settings, self.files, fires_at)

    def file_figures(self) -> FileFigures:
        """The files on the disk, and counts of damaged and refused ones."""
        files = self.files
        return FileFigures(
            files.index.directories,
            files.disk_bytes,
            files.quarantined,
            files.unremoved,
            files.repeats,
            files.put_aside,
        )
