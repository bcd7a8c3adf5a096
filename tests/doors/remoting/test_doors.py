"""One broker, many protocols: every protocol delivers messages sent by any other."""

import base64
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from aiohttp import ClientSession

from mocketmq.clock import US_PER_MS, US_PER_S, wall_us
from mocketmq_compat.aliyun_http.document import representable
from tests.doors.remoting.producing import UNIQUE, batch, parted, pulled, sent
from tests.support.aliyun import Aliyun
from tests.support.api import Api
from tests.support.remoting import Remoting, running_remoting

START = "__STARTDELIVERTIME"
HOUR_MS = 3_600_000
PLAIN = "naïve ☃ " * 100


class Doors(NamedTuple):
    """Clients of one emulator, one for each protocol."""

    remoting: Remoting
    api: Api
    aliyun: Aliyun

    async def advance(self, by_us: int) -> None:
        """Move the clock."""
        await self.remoting.broker.mover.advance(by_us)


@asynccontextmanager
async def running_doors(**changed: Any) -> AsyncIterator[Doors]:
    """Run an emulator whose topics have one queue, so that every client finds all messages in it."""
    async with running_remoting(topic_queues=1, **changed) as remoting, ClientSession() as session:
        await remoting.broker.registry.topics.put("orders", 1, 1, 6)
        yield Doors(remoting, Api(remoting.emulator, session), Aliyun(remoting.emulator, session))


DELAYS = [
    ({}, {}, {}),
    ({"DELAY": "3"}, {"delay_level": 3}, {}),
    ({"TIMER_DELAY_MS": "10000"}, {"delay_ms": 10_000}, {}),
    ({START: "later"}, {"start_deliver_ms": "later"}, {START: "later"}),
]


def at(given: dict[str, Any], due_ms: int) -> dict[str, Any]:
    """Return the fields with the instant in place of ``later``."""
    is_text = START in given
    return {
        key: (str(due_ms) if is_text else due_ms) if value == "later" else value
        for key, value in given.items()
    }


@pytest.mark.parametrize(("by_remoting", "by_api", "by_aliyun"), DELAYS)
async def test_message_is_received_at_every_door(
    by_remoting: dict[str, str], by_api: dict[str, Any], by_aliyun: dict[str, Any]
) -> None:
    async with running_doors() as doors:
        due_ms = wall_us() // US_PER_MS + HOUR_MS
        own = {"UNIQ_KEY": UNIQUE, "TAGS": "red", "KEYS": "k", "mine": "yes"}
        await sent(doors.remoting.client, b"from remoting", properties={**own, **at(by_remoting, due_ms)})
        fields: dict[str, Any] = {
            "message_id": "B1",
            "tag": "red",
            "keys": ["k"],
            "properties": {"mine": "yes"},
        }
        await doors.api.send(body="from json", **fields, **at(by_api, due_ms))
        is_delayed = bool(by_remoting)
        has_third = by_aliyun or not is_delayed
        if has_third:
            await doors.aliyun.published("from aliyun", "red", KEYS="k", mine="yes", **at(by_aliyun, due_ms))
        bodies = ["from remoting", "from json", *["from aliyun"] * bool(has_third)]
        if is_delayed:
            assert await pulled(doors.remoting.client) == []
            assert await doors.api.receive() == await doors.aliyun.consume() == []
            await doors.advance(HOUR_MS * US_PER_MS)

        # While the clock stands still, the order of messages with different due times is random.
        records = sorted(
            await pulled(doors.remoting.client), key=lambda record: bodies.index(record.body.decode())
        )
        assert [record.body.decode() for record in records] == bodies
        unique_keys = [parted(record.properties)["UNIQ_KEY"] for record in records]
        assert unique_keys[:2] == [UNIQUE, "B1"]
        for record in records:
            properties = parted(record.properties)
            assert (properties["TAGS"], properties["KEYS"], properties["mine"]) == ("red", "k", "yes")
        messages = {message["body"]: message for message in await doors.api.receive()}
        taken = {one["MessageBody"]: one for one in await doors.aliyun.consume()}
        assert set(messages) == set(taken) == set(bodies)
        for body, record, unique in zip(bodies, records, unique_keys, strict=True):
            message, one = messages[body], taken[body]
            assert (message["queue_offset"], message["message_id"]) == (record.queue_offset, unique)
            assert (message["tag"], message["keys"], message["properties"]["mine"]) == ("red", ["k"], "yes")
            assert (one["MessageId"], one["MessageTag"]) == (unique, "red")
            assert "mine:yes" in one["Properties"]


async def test_the_messages_of_a_batch_are_received_one_by_one() -> None:
    async with running_doors() as doors:
        body = batch((b"a", {"UNIQ_KEY": "A"}), (b"b", {"UNIQ_KEY": "B"}))
        await sent(doors.remoting.client, body, 320)
        assert [message["message_id"] for message in await doors.api.receive()] == ["A", "B"]
        assert await doors.aliyun.bodies() == ["a", "b"]


# Compressed bodies


@pytest.mark.parametrize("sys_flag", [0x001, 0x301])
async def test_bodies_compressed_by_a_client_library_are_readable_over_http(sys_flag: int) -> None:
    async with running_doors() as doors:
        packed = zlib.compress(PLAIN.encode())
        await sent(doors.remoting.client, packed, sys_flag=sys_flag, properties={"UNIQ_KEY": UNIQUE})
        [record] = await pulled(doors.remoting.client)
        assert (record.body, record.sys_flag) == (packed, sys_flag)
        [message] = await doors.api.receive()
        life = await doors.api.ok("GET", f"/v1/messages/{UNIQUE}")
        browsed = await doors.api.ok("GET", "/v1/topics/orders/queues/0/messages")
        for shown in (message, *life["records"], *browsed["messages"]):
            assert (shown["body"], shown["body_base64"], shown["compression"]) == (PLAIN, None, None)
            assert shown["sys_flag"] == sys_flag
        assert await doors.aliyun.bodies() == [PLAIN]


async def test_a_delayed_message_stays_compressed_and_readable() -> None:
    async with running_doors() as doors:
        for given in ({"DELAY": "1"}, {"TIMER_DELAY_SEC": "1"}):
            await sent(doors.remoting.client, zlib.compress(PLAIN.encode()), sys_flag=1, properties=given)
        waiting = (await doors.api.ok("GET", "/v1/delayed"))["messages"]
        assert [one["body"] for one in waiting] == [PLAIN] * 2
        await doors.advance(1 * US_PER_S)
        assert [record.sys_flag for record in await pulled(doors.remoting.client)] == [1, 1]
        assert await doors.aliyun.bodies() == [PLAIN] * 2


@pytest.mark.parametrize(
    ("body", "sys_flag", "compression"),
    [
        (b"lz4 packs nothing", 0x101, "lz4"),
        (b"zstd neither", 0x201, "zstd"),
        (b"who knows", 0x501, "unknown"),
        (b"broken", 0x301, "zlib"),
        (zlib.compress(bytes(1_001)), 0x001, "zlib"),
    ],
)
async def test_an_undecodable_body_is_shown_as_stored(body: bytes, sys_flag: int, compression: str) -> None:
    async with running_doors(max_message_bytes=1_000) as doors:
        await sent(doors.remoting.client, body, sys_flag=sys_flag)
        [message] = await doors.api.receive()
        assert (message["body"], base64.b64decode(message["body_base64"])) == (None, body)
        assert message["compression"] == compression
        [taken] = await doors.aliyun.consume()
        assert taken["MessageBody"] == representable(body.decode(errors="replace"))


async def test_an_uncompressed_body_is_labelled_so() -> None:
    async with running_doors() as doors:
        await doors.api.send()
        [message] = await doors.api.receive()
        assert (message["body"], message["compression"]) == ("hello", None)
