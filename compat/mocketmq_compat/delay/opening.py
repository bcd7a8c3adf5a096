"""Open the delay directory of a broker, with the timing that its settings ask for."""

from pathlib import Path

from mocketmq.errors import StoreUnavailableError
from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.schedule.timed_scheme import TimedScheme
from mocketmq.settings import Settings
from mocketmq.store.database import MEMORY
from mocketmq_compat.delay.delay_directory import FOLDER, DelayDirectory
from mocketmq_compat.delay.dongwo import Dongwo, Scans
from mocketmq_compat.delay.memory_directory import MemoryDirectory
from mocketmq_compat.delay.second_directories import SecondDirectories


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
