"""Finish work whose caller was cancelled, as when a client leaves in the middle of its request."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, TypeVar

from mocketmq.errors import EmulatorError

log = logging.getLogger(__name__)

T = TypeVar("T")


async def to_its_end(work: Awaitable[T]) -> T:
    """Await work that continues even if the caller is cancelled.

    A refusal that no caller waits for is dropped. Any other failure is logged as a defect.
    """
    going = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(going)
    except asyncio.CancelledError:
        going.add_done_callback(_take_note)
        raise


def _take_note(ended: asyncio.Future[Any]) -> None:
    error = None if ended.cancelled() else ended.exception()
    if error is not None and not isinstance(error, EmulatorError):
        log.error("a defect of mocketmq, in work for a client that has left", exc_info=error)
