"""Second directories as one of the delay schemes."""

from pathlib import Path

from mocketmq.errors import StoreUnavailableError
from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.schedule.timed_scheme import TimedScheme
from mocketmq.settings import Settings
from mocketmq.store.database import MEMORY
from mocketmq_compat.delay.directories.delay_directory import FOLDER, DelayDirectory
from mocketmq_compat.delay.directories.delay_inspection import DirectoryInspector
from mocketmq_compat.delay.directories.dongwo import Dongwo, Scans
from mocketmq_compat.delay.directories.kept_files import holds_files, new_files, read_files
from mocketmq_compat.delay.directories.memory_directory import MemoryDirectory
from mocketmq_compat.delay.directories.second_directories import SecondDirectories
from mocketmq_compat.delay.scheme_kind import SchemeKind


async def open_second_directories(settings: Settings, context: SchemeContext) -> TimedScheme:
    """Second directories, or Dongwo; what waits there is found. Raises a StoreError."""
    try:
        directory = (
            MemoryDirectory() if settings.data == MEMORY else DelayDirectory(Path(settings.data) / FOLDER)
        )
    except OSError as error:
        raise StoreUnavailableError(f"the delay directory cannot be made: {error.strerror}") from error
    if settings.start_deliver_time == "dongwo":
        scheme: SecondDirectories = Dongwo(context, settings, directory, Scans(context.started_us))
    else:
        scheme = SecondDirectories(context, settings, directory)
    try:
        await scheme.load()
    except BaseException:
        await scheme.close()
        raise
    return scheme


KIND = SchemeKind(open_second_directories, holds_files, read_files, new_files, DirectoryInspector)
