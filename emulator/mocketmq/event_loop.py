"""Work on the event loop: completed even if its caller is cancelled, and split into pieces if long."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from mocketmq.errors import EmulatorError

log = logging.getLogger(__name__)

PIECE: Final = 1_000
"""Number of messages in a piece of long work: a few milliseconds."""

P = ParamSpec("P")
T = TypeVar("T")


async def run_to_completion(work: Awaitable[T]) -> T:
    """Await work that continues even if the caller is cancelled, for example by a client that disconnects.

    After a cancellation, an EmulatorError is dropped, and any other failure is logged as a defect.
    """
    going = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(going)
    except asyncio.CancelledError:
        going.add_done_callback(log_defect)
        raise
    finally:
        del going  # the traceback of its error refers to this frame


def completed(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Let every call of an async function run to its end, like :func:`run_to_completion`."""

    @wraps(function)
    async def complete(*args: P.args, **kwargs: P.kwargs) -> T:
        return await run_to_completion(function(*args, **kwargs))

    return complete


def log_defect(ended: asyncio.Future[Any]) -> None:
    """Log the failure of work that nobody awaits, unless it is an EmulatorError."""
    error = None if ended.cancelled() else ended.exception()
    if error is not None and not isinstance(error, EmulatorError):
        log.error("bug in mocketmq: work failed after its caller was cancelled", exc_info=error)


class EventLoopTurns:
    """Gives long work its turns, so that other tasks wait for at most one piece of it.

    Each iteration of the event loop runs only one piece of all waiting work.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def next_turn(self) -> None:
        """Wait for a turn. On return the caller's piece of work begins; it ends at the next ``await``."""
        async with self._lock:
            await asyncio.sleep(0)


def pieces_of(items: Sequence[T], key: Callable[[T], object] | None = None) -> Iterator[Sequence[T]]:
    """The items in order, in pieces of ``PIECE``. With ``key``, neighbours of the same key stay together."""
    begin = 0
    while begin < len(items):
        end = begin + PIECE
        while key is not None and end < len(items) and key(items[end]) == key(items[end - 1]):
            end += 1
        yield items[begin:end]
        begin = end
