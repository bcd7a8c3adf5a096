"""End a command at once on Ctrl-C (SIGINT) and SIGTERM.

Spark's libraries lose a KeyboardInterrupt that is raised while they let go of an object of the JVM, as Python
ignores exceptions there. So their work is done in a thread of its own, and no signal becomes an exception.
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
    """Do the work, during which a signal ends the process with exit code 128 + its number, after ``clean``.

    A JVM that the work has started ends by itself, as its standard input is closed.
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
    """A socket to wait at and its other end: each signal sends a byte, as does whoever else has news.

    A thread that waits for a lock would sleep on after a signal that came just before.
    """
    woken, wake = socket.socketpair()
    with woken, wake:
        wake.setblocking(False)
        before = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        try:
            yield woken, wake
        finally:
            signal.set_wakeup_fd(before)
