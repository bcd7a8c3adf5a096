"""Real topics on brokers that do not answer."""

import asyncio
from typing import cast

import pytest

from mocketmq.calling.call import NoAnswerError
from mocketmq.calling.connection import Connection
from mocketmq.calling.name_servers import BrokerQueues, NameServers
from mocketmq.clock import US_PER_S
from mocketmq.relay.rocketmq import real_topics
from mocketmq.relay.rocketmq.brokers import Broker, Brokers
from mocketmq.relay.rocketmq.messages import Message
from mocketmq.relay.rocketmq.real_topics import RealTopics
from tests.support.relays import GROUP, ORDERS

ONE, TWO = BrokerQueues("one", "one:1", 4, 4), BrokerQueues("two", "two:1", 4, 4)
MESSAGE = Message({}, b"body")


class World:
    """Some brokers, what is asked of them, and the time."""

    def __init__(self, *queues: BrokerQueues) -> None:
        self.queues = queues
        self.now_us = 1
        self.asked: list[str] = []  # names of brokers, of each message that was sent to them
        self.silent: set[str] = set()
        self.answering = asyncio.Event()  # the silence of brokers is noticed when it is set
        self.answering.set()
        self.news = asyncio.Event()  # a message was sent

    async def route(self, topic: str) -> list[BrokerQueues] | None:
        """As a name server."""
        return list(self.queues) if topic == ORDERS else None

    async def masters(self) -> dict[str, str]:
        """As a name server."""
        return {each.broker: each.address for each in self.queues}

    async def send(self, broker: Broker) -> int:
        """As a broker."""
        self.asked.append(broker.name)
        self.news.set()
        await asyncio.sleep(0)  # others are sent meanwhile
        await self.answering.wait()
        if broker.name in self.silent:
            raise NoAnswerError(f"{broker.address} does not answer")
        return 0


def topics_of(world: World, monkeypatch: pytest.MonkeyPatch) -> RealTopics:
    monkeypatch.setattr(real_topics, "steady_us", lambda: world.now_us)

    async def send(broker: Broker, *_: object) -> int:
        return await world.send(broker)

    monkeypatch.setattr(Broker, "send", send)
    return RealTopics(cast(NameServers, world), Brokers(Connection), GROUP)


async def outcomes(topics: RealTopics, count: int = 5) -> list[str]:
    """Send messages at once; what was wrong with each."""
    sent = (topics.send(ORDERS, MESSAGE) for _ in range(count))
    return [str(each or "") for each in await asyncio.gather(*sent, return_exceptions=True)]


async def test_one_message_at_a_time_tries_a_broker_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(ONE)
    topics = topics_of(world, monkeypatch)
    world.silent.add("one")
    assert await outcomes(topics) == ["one:1 does not answer"] * 5
    assert len(world.asked) == 5  # nobody knew
    assert await outcomes(topics) == ["one:1 does not answer"] * 5
    assert len(world.asked) == 5
    world.now_us += 2 * US_PER_S
    world.answering.clear()
    world.news.clear()
    trying = asyncio.create_task(topics.send(ORDERS, MESSAGE))
    await world.news.wait()
    assert await outcomes(topics) == ["one:1 does not answer"] * 5
    world.now_us += 10 * US_PER_S
    world.answering.set()
    with pytest.raises(NoAnswerError):
        await trying
    world.now_us += 9 * US_PER_S  # it is left alone for as long as it took
    assert await outcomes(topics) == ["one:1 does not answer"] * 5
    assert len(world.asked) == 6
    world.silent.clear()
    world.now_us += 2 * US_PER_S
    await topics.send(ORDERS, MESSAGE)
    assert await outcomes(topics) == [""] * 5
    assert len(world.asked) == 12


async def test_messages_go_to_another_broker_and_to_the_first_again_once_it_answers(
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


async def test_topics_that_nobody_asks_for_any_more_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(ONE)
    monkeypatch.setattr(real_topics, "_MOST_KNOWN", 10)
    topics = topics_of(world, monkeypatch)
    for number in range(100):
        assert await topics.is_unknown(f"nowhere-{number}")
        world.now_us += 2 * US_PER_S
    assert len(topics._routes) <= 10
