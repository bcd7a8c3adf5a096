"""Ends a command at once on Ctrl-C (SIGINT) and SIGTERM.

A KeyboardInterrupt is lost while Spark's libraries release an object of the JVM, because Python ignores
exceptions during a release. So the work runs in a separate thread, and no signal becomes an exception.
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn, TypeVar

T = TypeVar("T")

_SHOW_CURSOR: Final = b"\x1b[?25h\n"


def ended_by_signals(work: Callable[[], T], clean: Callable[[], object] = lambda: None) -> T:
    """Do the work; a signal calls ``clean`` and ends the process with exit code 128 + its number.

    A JVM that the work has started ends when its standard input closes.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    screen = next((os.dup(stream.fileno()) for stream in (sys.stdout, sys.stderr) if stream.isatty()), None)

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        try:
            if screen is not None:
                os.write(screen, _SHOW_CURSOR)
            clean()
        finally:
            os._exit(128 + number)

    before = [(number, signal.signal(number, end)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        with _woken_by_signals() as (woken, wake), ThreadPoolExecutor(1) as thread:
            working = thread.submit(work)
            working.add_done_callback(lambda _: wake.send(b"."))
            while not working.done():
                woken.recv(1)
            return working.result()
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        if screen is not None:
            os.close(screen)


@contextmanager
def _woken_by_signals() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield a socket pair. Its first socket receives a byte for each signal, and at the end of the thread.

    A wait for a lock instead would miss a signal that arrives just before the wait.
    """
    woken, wake = socket.socketpair()
    with woken, wake:
        wake.setblocking(False)
        before = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        try:
            yield woken, wake
        finally:
            signal.set_wakeup_fd(before)
