"""A delay topic on two brokers, one of which goes down."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from mocketmq.relay.judging import RELAY_DELAY_MS, RELAY_REFUSED, RELAY_TOPIC
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.fastjson import dumps
from mocketmq.remoting.wire.frame import FrameReader, encode
from mocketmq.remoting.wire.record import WireRecord
from tests.support.patience import HANGING_S
from tests.support.relays import (
    LATER,
    LONG_US,
    ORDERS,
    QUEUES,
    User,
    ids_of,
    properties_of,
    running_relay,
    user_of,
)
from tests.support.remoting import running_remoting

ELSEWHERE = "elsewhere"
TOPICS = (LATER, ORDERS, f"{LATER}-pending", f"{LATER}-refused")


@asynccontextmanager
async def name_server(brokers: Mapping[str, str]) -> AsyncIterator[str]:
    """A name server with these brokers by name, and all topics on each except ``elsewhere`` on ``two``."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader()
        while data := await reader.read(1 << 16):
            for request in frames.feed(data):
                writer.write(encode(answer(request)))
        writer.close()

    def answer(request: Command) -> Command:
        table = {
            name: {"brokerName": name, "brokerAddrs": {"0": address}, "cluster": "c"}
            for name, address in brokers.items()
        }
        if request.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            return request.answer(ResponseCode.SUCCESS, {}, dumps({"brokerAddrTable": table}), None)
        topic = request.ext["topic"]
        there = [name for name in table if topic in TOPICS or (topic, name) == (ELSEWHERE, "two")]
        if not there:
            return request.answer(ResponseCode.TOPIC_NOT_EXIST, {}, b"", "no such topic")
        numbers = {"perm": 6, "readQueueNums": QUEUES, "writeQueueNums": QUEUES}
        route = {
            "brokerDatas": [table[name] for name in there],
            "queueDatas": [{"brokerName": name, **numbers} for name in there],
        }
        return request.answer(ResponseCode.SUCCESS, {}, dumps(route), None)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@asynccontextmanager
async def broker(addresses: dict[str, str], name: str) -> AsyncIterator[User]:
    """Run a broker with all topics, listed in the addresses while it runs, and a user of the broker."""
    async with running_remoting(clock="real", auto_create_topics=False) as remoting:
        remoting.broker.queue_locks.lifetime_us = LONG_US
        host, port = remoting.emulator.settings.host, remoting.server.broker_port
        async with user_of(host, port) as user:
            for topic in (*TOPICS, ELSEWHERE):
                await user.make_topic(topic)
            addresses[name] = f"{host}:{port}"
            try:
                yield user
            finally:
                del addresses[name]


async def test_queues_of_each_broker_are_served_independently() -> None:
    addresses: dict[str, str] = {}
    both, late = [b"%d" % number for number in range(40)], [b"late %d" % number for number in range(10)]
    async with AsyncExitStack() as stack, AsyncExitStack() as going:
        staying_user = await stack.enter_async_context(broker(addresses, "one"))
        going_user = await going.enter_async_context(broker(addresses, "two"))
        relay = await stack.enter_async_context(
            running_relay(await stack.enter_async_context(name_server(addresses)))
        )
        await staying_user.delay(both[:20], 1)
        await going_user.delay(both[20:], 1)
        users = staying_user, going_user
        async with asyncio.timeout(HANGING_S):
            received: list[WireRecord] = []
            while {record.body for record in received} != set(both):
                for user in users:
                    await user.look(ORDERS)
                received = [record for user in users for record in user.read[ORDERS]]
        ids = [next(iter(each)) for each in ids_of(received).values()]
        assert len(set(ids)) == len(both)
        assert {each.partition("/")[0] for each in ids} == {"one", "two"}
        await going.aclose()
        await staying_user.delay(late, 1)
        await staying_user.received(late)
        assert relay.figures().refused == 0


async def test_unreachable_topics_wait_and_unknown_topics_are_refused() -> None:
    addresses: dict[str, str] = {}
    words = {RELAY_TOPIC: ELSEWHERE, RELAY_DELAY_MS: "1"}
    async with (
        broker(addresses, "one") as user,
        name_server(addresses) as there,
        AsyncExitStack() as stack,
    ):
        async with broker(addresses, "two"):
            await stack.enter_async_context(running_relay(there))
        await user.send(b"waits", words)
        await user.delay([b"here"], 1)
        await user.received([b"here"])
        async with broker(addresses, "two") as again:
            await again.received([b"waits"], ELSEWHERE)
            await user.send(b"lost", words | {RELAY_TOPIC: "nowhere"})
            [refused] = await user.received([b"lost"], f"{LATER}-refused")
    assert properties_of(refused)[RELAY_REFUSED] == "the real topic nowhere does not exist"
