"""Clients that request many large messages and never read them, or disconnect at once."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mocketmq.grpc_proxy.frames import PREFACE, Http2Setting, settings_frame
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.frame import encode
from tests.doors.remoting.consuming import PULL, pull_of
from tests.doors.remoting.popping import POP, pop_of
from tests.hostile.flooded import MB, SEND, SEND_MESSAGE_V2
from tests.hostile.floods import LARGE, received
from tests.hostile.watched import watched
from tests.support.process import BrokerProcess, forked_broker
from tests.support.remoting import connected

pytestmark = pytest.mark.slow

RECEIVES, TOGETHER = 800, 40
MORE_AT_MOST = {"pull": 90 * MB, "pop": 90 * MB}
"""Limits on what the broker takes in addition, where the limit of all floods would allow twice as much."""
MESSAGES, LARGE_BYTES = 32, 900_000
DEAF_S = 3.0

Ask = Callable[[int, str], bytes]
"""Builds the n-th receive of a connection, for a group without other members."""


def by_grpc(number: int, group: str) -> bytes:
    return received(2 * number + 1, LARGE, 0, group)


def by_json(_: int, group: str) -> bytes:
    body = json.dumps({"topic": LARGE, "max": 256})
    head = f"POST /v1/groups/{group}/receive HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n{body}".encode()


def by_aliyun(_: int, group: str) -> bytes:
    path = f"/topics/{LARGE}/messages?consumer={group}&numOfMessages=16"
    return f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode()


def browse(number: int, _: str) -> bytes:
    path = f"/v1/topics/{LARGE}/queues/{number % 4}/messages?max=256"
    return f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode()


def pull(number: int, group: str) -> bytes:
    ext = pull_of(0, topic=LARGE, queueId=number % 4, consumerGroup=group)
    return encode(Command(code=PULL, opaque=number, ext=ext))


def pop(number: int, group: str) -> bytes:
    return encode(Command(code=POP, opaque=number, ext=pop_of(topic=LARGE, consumerGroup=group)))


def http_port(broker: BrokerProcess) -> int:
    return int(broker.url.rpartition(":")[2])


DOORS: dict[str, tuple[Ask, bytes, Callable[[BrokerProcess], int]]] = {
    "gRPC": (
        by_grpc,
        PREFACE + settings_frame({Http2Setting.INITIAL_WINDOW_SIZE: 0}),
        lambda broker: int(broker.grpc.rpartition(":")[2]),
    ),
    "JSON": (by_json, b"", http_port),
    "Aliyun": (by_aliyun, b"", http_port),
    "browse": (browse, b"", http_port),
    "pull": (pull, b"", lambda broker: broker.broker_port),
    "pop": (pop, b"", lambda broker: broker.broker_port),
}


def requests(door: str, is_pipelined: bool) -> Iterator[bytes]:
    """Return the requests of each connection; HTTP/1 gets one, because it serves requests one by one."""
    ask, before, _ = DOORS[door]
    together = TOGETHER if is_pipelined else 1
    for first in range(0, RECEIVES, together):
        yield before + b"".join(ask(number, f"gone{first + number}") for number in range(together))


@pytest.mark.parametrize("deaf_s", [0.0, DEAF_S], ids=["gone", "deaf"])
@pytest.mark.parametrize("door", DOORS)
async def test_eight_hundred_unread_receives_take_bounded_memory(
    door: str, deaf_s: float, tmp_path: Path
) -> None:
    async with forked_broker("--data", str(tmp_path)) as broker:
        async with connected("127.0.0.1", broker.broker_port) as client:
            for number in range(MESSAGES):
                fields = SEND | {"b": LARGE, "e": str(number % 4)}
                await client.ok(SEND_MESSAGE_V2, fields, bytes(LARGE_BYTES))
        port = DOORS[door][2](broker)
        async with watched(broker) as found:
            writers = []
            for request in requests(door, is_pipelined=port != http_port(broker)):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 10)
                reader._transport.pause_reading()  # type: ignore[attr-defined]
                writer.write(request)
                writers.append(writer)
            await asyncio.sleep(deaf_s)
            for writer in writers:
                writer.transport.abort()
            await found.healthy()
            await found.memory_is_back()
            found.assert_well()
            if door in MORE_AT_MOST:
                assert found.peak - found.before < MORE_AT_MOST[door]
