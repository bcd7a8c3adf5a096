"""Real topics on brokers that do not answer."""

import asyncio
from typing import cast

import pytest

from mocketmq.calling.call import NoAnswerError
from mocketmq.calling.connection import ClientConnection
from mocketmq.calling.name_servers import BrokerQueues, NameServers
from mocketmq.clock import US_PER_S
from mocketmq.relay.rocketmq import real_topics
from mocketmq.relay.rocketmq.brokers import RemoteBroker, RemoteBrokers
from mocketmq.relay.rocketmq.messages import MessageContent
from mocketmq.relay.rocketmq.real_topics import RealTopics
from tests.support.relays import GROUP, ORDERS

ONE, TWO = BrokerQueues("one", "one:1", 4, 4), BrokerQueues("two", "two:1", 4, 4)
MESSAGE = MessageContent({}, b"body")


class World:
    """Simulated brokers with their requests and a clock."""

    def __init__(self, *queues: BrokerQueues) -> None:
        self.queues = queues
        self.now_us = 1
        self.asked: list[str] = []  # the broker's name for each message sent
        self.silent: set[str] = set()
        self.answering = asyncio.Event()  # requests to silent brokers fail once it is set
        self.answering.set()
        self.news = asyncio.Event()  # a message was sent

    async def route(self, topic: str) -> list[BrokerQueues] | None:
        """Answer as a name server would."""
        return list(self.queues) if topic == ORDERS else None

    async def masters(self) -> dict[str, str]:
        """Answer as a name server would."""
        return {each.broker: each.address for each in self.queues}

    async def send(self, broker: RemoteBroker) -> int:
        """Answer as a broker would."""
        self.asked.append(broker.name)
        self.news.set()
        await asyncio.sleep(0)  # other messages are sent during this turn
        await self.answering.wait()
        if broker.name in self.silent:
            raise NoAnswerError(f"{broker.address} did not answer")
        return 0


def topics_of(world: World, monkeypatch: pytest.MonkeyPatch) -> RealTopics:
    monkeypatch.setattr(real_topics, "steady_us", lambda: world.now_us)

    async def send(broker: RemoteBroker, *_: object) -> int:
        return await world.send(broker)

    monkeypatch.setattr(RemoteBroker, "send", send)
    return RealTopics(cast(NameServers, world), RemoteBrokers(ClientConnection), GROUP)


async def outcomes(topics: RealTopics, count: int = 5) -> list[str]:
    """Send messages concurrently, and return the error of each."""
    sent = (topics.send(ORDERS, MESSAGE) for _ in range(count))
    return [str(each or "") for each in await asyncio.gather(*sent, return_exceptions=True)]


async def test_silent_broker_is_tried_by_one_message_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(ONE)
    topics = topics_of(world, monkeypatch)
    world.silent.add("one")
    assert await outcomes(topics) == ["one:1 did not answer"] * 5
    assert len(world.asked) == 5  # no send knew of the outage yet
    assert await outcomes(topics) == ["one:1 did not answer"] * 5
    assert len(world.asked) == 5
    world.now_us += 2 * US_PER_S
    world.answering.clear()
    world.news.clear()
    trying = asyncio.create_task(topics.send(ORDERS, MESSAGE))
    await world.news.wait()
    assert await outcomes(topics) == ["one:1 did not answer"] * 5
    world.now_us += 10 * US_PER_S
    world.answering.set()
    with pytest.raises(NoAnswerError):
        await trying
    world.now_us += 9 * US_PER_S  # the broker is skipped for as long as the failure took
    assert await outcomes(topics) == ["one:1 did not answer"] * 5
    assert len(world.asked) == 6
    world.silent.clear()
    world.now_us += 2 * US_PER_S
    await topics.send(ORDERS, MESSAGE)
    assert await outcomes(topics) == [""] * 5
    assert len(world.asked) == 12


async def test_messages_avoid_a_silent_broker_until_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(ONE, TWO)
    topics = topics_of(world, monkeypatch)
    world.silent.add("one")
    for _ in range(16):
        await topics.send(ORDERS, MESSAGE)
    assert world.asked.count("one") == 1
    assert world.asked.count("two") == 16
    world.silent.clear()
    world.now_us += 2 * US_PER_S
    world.asked.clear()
    for _ in range(16):
        await topics.send(ORDERS, MESSAGE)
    assert world.asked.count("one") == 8


async def test_unused_topics_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(ONE)
    topics = topics_of(world, monkeypatch)
    topics.most_known = 10
    for number in range(100):
        assert await topics.is_unknown(f"nowhere-{number}")
        world.now_us += 2 * US_PER_S
    assert len(topics._routes) <= 10
