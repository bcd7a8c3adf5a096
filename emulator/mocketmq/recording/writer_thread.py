"""A thread that writes a recorder's collected lines five times a second."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from mocketmq.recording.recording import RecordingError, RecordingWriter

log = logging.getLogger(__name__)

_PERIOD_S: Final = 0.2


class WriterThread:
    """Calls ``write`` five times a second, unless the thread is still busy; ``write`` uses :meth:`put`.

    The thread writes to ``file``, and finally closes it; ``what`` names it in the log.
    """

    def __init__(self, name: str, what: str, file: RecordingWriter, write: Callable[[], None]) -> None:
        self.has_ended = False  # whether the recording has ended
        self._what = what
        self._file = file
        self._write = write
        self._thread = ThreadPoolExecutor(1, name)
        self._writing: Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_writing(self) -> bool:
        return self._writing is not None and not self._writing.done()

    def start(self) -> None:
        """Start writing in the background."""
        self._task = asyncio.create_task(self._write_on())

    async def _write_on(self) -> None:
        while True:
            await asyncio.sleep(_PERIOD_S)
            if not self.is_writing:
                self._write()

    def put(self, act: Callable[[], None]) -> None:
        """Run ``act`` in the thread, after the work that it has begun."""
        self._writing = self._thread.submit(act)

    def wait(self) -> None:
        """Block until the thread has finished its work."""
        if self._writing is not None:
            self._writing.result()

    def fail(self, error: Exception) -> None:
        """End the recording, and log the error once. The broker continues without a recording."""
        if not self.has_ended:
            self.has_ended = True
            is_known = isinstance(error, RecordingError)
            log.error("%s ended: %s", self._what, error, exc_info=None if is_known else error)

    async def close(self) -> None:
        """Write everything collected, and close the file."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._write()
        await asyncio.wrap_future(self._thread.submit(self._close_file))
        self._thread.shutdown()

    def _close_file(self) -> None:
        try:
            self._file.close()
        except RecordingError as error:
            self.fail(error)
