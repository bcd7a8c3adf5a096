"""The entry point of the program ``mocketmq``, and of ``python -m mocketmq``."""

import os
import signal
import sys
import threading
from typing import NoReturn


def main() -> None:
    """Run the command line. Until a command installs handlers, signals end the process at once.

    A KeyboardInterrupt could be lost, because Python ignores exceptions while it cleans up after an import.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # scripts ignore signals in background jobs
            signal.signal(number, _end)
    if sys.platform == "win32":
        for stream in (sys.stdout, sys.stderr):
            # For a pipe, Python uses the system's encoding, which may lack most characters.
            stream.reconfigure(encoding="utf-8")
    else:
        _listen()
    from mocketmq.cli import main as run  # noqa: PLC0415 - a slow import, during which signals must work

    run()


def _listen() -> None:
    """Also handle signals in a thread.

    Python handles signals between two steps of the main thread. A signal just before a system call is
    noticed only when the call returns, which may be never if it waits for a broker that does not answer.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)  # an event loop that handles signals replaces this
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
