"""The wheel: a delay scheme of a file per ten minutes, loaded ahead into a timing wheel in memory.

The idea is plan 2 of an article (docs/schemes/wheel.md). A send goes into the file of its due time, and into
the wheel as well if that file is loaded. Bodies stay in the files until they are due, so the wheel's memory
does not grow with them.
"""

from mocketmq.clock import US_PER_S
from mocketmq.schedule.scheme import FileFigures
from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.settings import Settings
from mocketmq_compat.delay.indexed_scheme import IndexedScheme
from mocketmq_compat.delay.wheel.wheel_files import WheelFiles
from mocketmq_compat.delay.wheel.wheel_storage import WheelStorage


class Wheel(IndexedScheme):
    """The scheme over the files of a storage."""

    name = "wheel"

    def __init__(self, context: SchemeContext, settings: Settings, storage: WheelStorage) -> None:
        clock = context.store.clock
        self.files = WheelFiles(
            storage,
            settings.delay_sync,
            settings.delay_quota_bytes,
            context.store.writer.synced,
            context.changed,
            context.numbers,
            lambda: clock.now_us() // US_PER_S,
        )
        super().__init__(context, settings, self.files)

    def file_figures(self) -> FileFigures:
        """The files on the disk; ``directories`` counts files of ten minutes."""
        files = self.files
        return FileFigures(
            files.index.files,
            files.disk_bytes,
            files.quarantined,
            files.unremoved,
            files.repeats,
            files.put_aside,
        )
