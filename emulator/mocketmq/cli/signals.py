"""Handles the signals that ask a command to stop."""

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Final

from mocketmq.cli.exit_codes import Exit

EXIT_CODES: Final[Mapping[int, int]] = {signal.SIGINT: Exit.INTERRUPTED.value, signal.SIGTERM: 143}
"""Exit codes of commands that end early, but in order, by the signal."""


def at_stop_signals(call: Callable[[int], object]) -> None:
    """Make signals call ``call`` with their number in the running event loop from now on."""
    loop = asyncio.get_running_loop()
    for number in EXIT_CODES:
        if sys.platform == "win32":  # event loops have no signal handlers here, but signals wake them
            signal.signal(number, lambda number, _: loop.call_soon_threadsafe(call, number))
        else:
            loop.add_signal_handler(number, call, number)
