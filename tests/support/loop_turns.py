"""How long the event loop is kept from others, in time of its CPU, which a busy machine hardly changes."""

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MS = 1_000_000
Turn = tuple[float, str]


@contextmanager
def long_turns() -> Iterator[list[Turn]]:
    """The callbacks of asyncio's loop meanwhile: how many milliseconds each took, and its name."""
    turns: list[Turn] = []
    handles: Any = asyncio.events.Handle
    run = handles._run

    def timed(handle: asyncio.Handle) -> None:
        began_ns, name = time.thread_time_ns(), repr(handle)
        try:
            run(handle)
        finally:
            turns.append(((time.thread_time_ns() - began_ns) / MS, name))

    handles._run = timed
    gc.collect()
    gc.freeze()  # a broker's process has no heap of tests to look through
    try:
        yield turns
    finally:
        gc.unfreeze()
        handles._run = run
