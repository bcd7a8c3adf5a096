"""Logs the stack of a blocked event loop.

A handler that blocks stalls every protocol, timer and signal, and the loop cannot report the problem itself.
A thread therefore pings the loop each second. The thread counts its own waits instead of reading a clock, so
that a stopped process or a suspended laptop raises no alarm.
"""

import asyncio
import logging
import sys
import threading
import traceback
from contextlib import suppress
from typing import Final

log = logging.getLogger(__name__)

_PERIOD_S: Final = 1.0
_PATIENCE: Final = 10
"""Number of pings without a response before the alarm, 10 s in all."""


class Watchdog:
    """Watches the event loop that runs in the calling thread, until ``close``."""

    def __init__(self, period_s: float = _PERIOD_S) -> None:
        self._period_s = period_s
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        with suppress(RuntimeError):  # the loop is already closed
            while not self._closed.wait(self._period_s):
                answer = threading.Event()
                self._loop.call_soon_threadsafe(answer.set)
                for _ in range(_PATIENCE):
                    if answer.wait(self._period_s) or self._closed.is_set():
                        break
                else:
                    self._report(answer)

    def _report(self, answer: threading.Event) -> None:
        stack = "".join(traceback.format_stack(sys._current_frames()[self._watched]))
        log.critical(
            "the event loop has not run for %g s, so no request is served; its stack:\n%s",
            self._period_s * _PATIENCE,
            stack.rstrip(),
        )
        while not answer.wait(self._period_s) and not self._closed.is_set():
            pass
        if answer.is_set():
            log.critical("the event loop runs again")
