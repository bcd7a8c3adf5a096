"""Incomplete bodies that take too much memory."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader

from mocketmq.connections.budget import FREE_BYTES
from mocketmq.http_api.bodies import Bodies, SlowBodyError, TooManyBodiesError

PIECE = bytes(FREE_BYTES + 1)


def upload(bodies: Bodies) -> tuple[StreamReader, "asyncio.Task[bytes]"]:
    """Begin a request whose body arrives piece by piece."""
    content = StreamReader(Mock(), 1 << 30, loop=asyncio.get_running_loop())
    request: Any = SimpleNamespace(content=content, content_length=None, headers={})
    return content, asyncio.create_task(bodies.read(request))


@pytest.mark.parametrize("turns", range(4))
async def test_a_stalled_body_is_given_up_once(turns: int) -> None:
    """Whatever the event loop does between two bodies that find the memory full."""
    bodies = Bodies(1 << 30)
    bodies.still_us, bodies.most_held = 0, len(PIECE)
    (stalled, first), (content, second), (another, third) = (upload(bodies) for _ in range(3))
    await asyncio.sleep(0)
    stalled.feed_data(PIECE)
    for _ in range(3):
        await asyncio.sleep(0)
    content.feed_data(PIECE)
    for _ in range(turns):
        await asyncio.sleep(0)
    another.feed_data(PIECE)
    another.feed_eof()
    results = await asyncio.gather(first, second, third, return_exceptions=True)
    kinds = [type(each) for each in results]
    assert kinds[:2] == [SlowBodyError, TooManyBodiesError]
    assert kinds[2] in (TooManyBodiesError, bytes)  # bytes if the first body was given up before it arrived
    assert bodies.held == 0
