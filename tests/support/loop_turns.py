"""Measures how long callbacks block the event loop, in CPU time, which hardly depends on other load."""

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
    """Record the CPU milliseconds and the name of each callback of the event loop."""
    turns: list[Turn] = []
    handles: Any = asyncio.events.Handle
    run = handles._run

    def timed(handle: asyncio.Handle) -> None:
        name, began_ns = repr(handle), time.thread_time_ns()
        try:
            run(handle)
        finally:
            turns.append(((time.thread_time_ns() - began_ns) / MS, name))

    handles._run = timed
    gc.collect()
    gc.freeze()  # otherwise garbage collection would scan the heap of the tests
    try:
        yield turns
    finally:
        gc.unfreeze()
        handles._run = run
