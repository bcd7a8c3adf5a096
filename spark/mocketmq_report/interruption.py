"""End a command at once on Ctrl-C (SIGINT) and SIGTERM.

Spark's libraries lose a KeyboardInterrupt that is raised while they let go of an object of the JVM, as Python
ignores exceptions there. So their work is done in a thread of its own, and no signal becomes an exception.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(work).result()
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        if screen is not None:
            os.close(screen)
