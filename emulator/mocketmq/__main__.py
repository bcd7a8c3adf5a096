"""The program ``mocketmq``, and ``python -m mocketmq``."""

import os
import signal
import sys
import threading
from typing import NoReturn


def main() -> None:
    """Run the command line. Until a command handles signals in its own way, they end the process at once.

    As a KeyboardInterrupt a signal could be lost: Python ignores exceptions while it tidies up after an
    import.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as for background jobs of a script
            signal.signal(number, _end)
    if sys.platform != "win32":
        _listen()
    from mocketmq.cli import main as run  # noqa: PLC0415 - takes time, in which signals come

    run()


def _listen() -> None:
    """Handle signals in a thread, too.

    Python handles them between two steps of the main thread. One that comes just before a system call is not
    seen until that returns: with a broker that never answers, never.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)  # what an event loop does as well, if it handles signals
    threading.Thread(target=_heed, args=(reading,), daemon=True).start()


def _heed(reading: int) -> None:
    while number := os.read(reading, 1):
        if signal.getsignal(number[0]) is _end:
            _end(number[0], None)


def _end(number: int, _frame: object) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        if stream.isatty():
            os.write(stream.fileno(), b"\x1b[?25h\n")  # a progress line hides the cursor
            break
    os._exit(128 + number)


if __name__ == "__main__":
    main()
