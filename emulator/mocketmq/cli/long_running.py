"""Signals and log lines of long-running commands. Other commands do not import ``logging``."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from mocketmq.cli.exit_codes import Exit
from mocketmq.cli.text import harmless

T = TypeVar("T")

EXIT_CODES: Final[Mapping[int, int]] = {signal.SIGINT: Exit.INTERRUPTED.value, signal.SIGTERM: 143}
"""Exit codes by signal of commands that a signal stopped cleanly."""


def at_stop_signals(call: Callable[[int], object]) -> None:
    """Make signals call ``call`` with their number in the running event loop from now on."""
    loop = asyncio.get_running_loop()
    for number in EXIT_CODES:
        if sys.platform == "win32":  # event loops do not handle signals on Windows, but are woken by them
            signal.signal(number, lambda number, _: loop.call_soon_threadsafe(call, number))
        else:
            loop.add_signal_handler(number, call, number)


async def until_signal(work: Coroutine[Any, Any, T]) -> tuple[int, T | None]:
    """Do the work, and cancel it at a signal. Returns the signal's exit code, or 0, and the result, if any.

    Raises what the work raises.
    """
    codes = [0]
    task = asyncio.ensure_future(work)

    def end(number: int) -> None:
        codes.append(EXIT_CODES[number])
        task.cancel()

    at_stop_signals(end)
    await asyncio.wait([task])
    return codes[-1], None if task.cancelled() else task.result()


@contextmanager
def signals_restored() -> Iterator[None]:
    """Restore the handlers of signals at the end, because an event loop does not."""
    kept = {number: signal.getsignal(number) for number in EXIT_CODES}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


class _Formatter(logging.Formatter):
    """Escapes control characters, because a terminal would obey those in text from clients."""

    def format(self, record: logging.LogRecord) -> str:
        return harmless(super().format(record), "\n")  # a stack has newlines


def log_to_stderr() -> None:
    """Show log lines from level warning on, unless a logger sets another level."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler])
