"""Clients of the HTTP port that begin requests and stall."""

import asyncio
from contextlib import suppress

import pytest

from mocketmq.clock import US_PER_S
from mocketmq.http_api.bodies import QUIET_S
from mocketmq.http_api.connection import HEADER_US, TICK_S
from tests.hostile.watched import watched
from tests.support.patience import PATIENCE_S
from tests.support.process import forked_broker

pytestmark = pytest.mark.slow

HEADER_S = HEADER_US / US_PER_S
BODY_BYTES = 9_400_000
BEFORE_BODY = (
    f"POST /v1/topics/orders/messages HTTP/1.1\r\nHost: h\r\nContent-Length: {BODY_BYTES}\r\n\r\n"
).encode()
REFUSED, LATE, CUT = 503, 408, 0


async def begin(url: str, request: bytes) -> int:
    """Send the beginning of a request, and return the status of the answer, or ``CUT`` without one."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, port)
    try:
        with suppress(ConnectionError):
            writer.write(request)
            await writer.drain()
        with suppress(ConnectionError):
            line = await reader.readline()
            return int(line.split()[1]) if line else CUT
        return CUT
    finally:
        writer.close()


async def test_unfinished_bodies_take_bounded_memory() -> None:
    body = BEFORE_BODY + bytes(BODY_BYTES - 1)
    async with forked_broker() as broker, watched(broker) as found:
        async with asyncio.timeout(QUIET_S + PATIENCE_S):
            statuses = set(await asyncio.gather(*(begin(broker.url, body) for _ in range(120))))
        assert REFUSED in statuses
        assert statuses <= {REFUSED, LATE, CUT}
        await found.memory_is_back()
        found.assert_well()


@pytest.mark.parametrize(
    ("begun", "seconds"),
    [(b"GET /v1/clock HTTP/1.1\r\nHost: h\r\n", HEADER_S), (BEFORE_BODY + b"{", QUIET_S)],
    ids=["header", "body"],
)
async def test_two_thousand_stalled_clients_are_survived(begun: bytes, seconds: float) -> None:
    async with forked_broker() as broker, watched(broker) as found:
        async with asyncio.timeout(seconds + TICK_S + PATIENCE_S):
            statuses = await asyncio.gather(*(begin(broker.url, begun) for _ in range(2_000)))
        assert set(statuses) <= {LATE, CUT}
        assert found.seconds > seconds - 1
        found.assert_well()
