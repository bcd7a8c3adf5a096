"""Priority messages: consumers get the highest queue of a topic of type ``priority`` first, as in 5.5.0."""

from pathlib import Path

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.broker.registry.groups import MAX_RETRIES, GroupConfig
from mocketmq.broker.registry.topic import PERM_READ, PERM_WRITE
from mocketmq.broker.registry.topic_config import PLAIN
from mocketmq.errors import IllegalMessageError
from mocketmq.message.message import Message
from mocketmq.message.properties import PRIORITY
from tests.broker.popping import INVISIBLE_US, acknowledge, pop, pop_with_rest, takes, waiting_pop
from tests.support.brokers import GROUP, TOPIC, S, bodies, give_back, receive, running_broker, send

TEN = 10
HIGHEST_FIRST = [str(priority) for priority in reversed(range(TEN))]


async def create(broker: Broker, queues: int = TEN, kind: str = "priority") -> None:
    """Create the topic with a queue for each priority."""
    await broker.registry.topics.put(TOPIC, queues, queues, PERM_READ | PERM_WRITE, PLAIN.typed(kind))


async def send_priority(broker: Broker, priority: int, body: str = "", **properties: str) -> int:
    """Send a message whose default body is its priority. Return the number of its queue."""
    given = {PRIORITY: str(priority), **properties}
    sent = await broker.sender.send(Message(TOPIC, (body or str(priority)).encode(), given))
    return sent.queue.queue_id


async def set_factor(broker: Broker, factor: int) -> None:
    """Change how many of a hundred receives of the group get the highest priority first."""
    config = GroupConfig(attributes={"priority.factor": str(factor)})
    await broker.registry.groups.put(GROUP, MAX_RETRIES, 1, config)


async def test_highest_priority_comes_first_and_the_oldest_of_it() -> None:
    async with running_broker() as broker:
        await create(broker)
        for priority in (3, 0, 9, 5, 9, 0, 3):
            assert await send_priority(broker, priority) == priority
        assert bodies(await receive(broker, 3)) == ["9", "9", "5"]
        assert await send_priority(broker, 7) == 7
        popped = await pop_with_rest(broker, 2)
        assert (bodies(popped.messages), popped.rest) == (["7", "3"], 3)
        assert bodies(await receive(broker)) == ["3", "0", "0"]
        offsets = [one.message.log_offset for one in await receive(broker, group="another", limit=2)]
        assert offsets == sorted(offsets)


async def test_a_priority_above_the_last_queue_is_that_of_the_last_queue() -> None:
    async with running_broker() as broker:
        await create(broker, queues=3)
        queues = [await send_priority(broker, priority) for priority in (0, 2, 3, 2_147_483_647)]
        assert queues == [0, 2, 2, 2]
        assert bodies(await pop(broker)) == ["2", "3", "2147483647", "0"]


async def test_a_message_without_priority_counts_by_its_queue() -> None:
    async with running_broker() as broker:
        await create(broker)
        await send_priority(broker, 4)
        await send(broker, "eighth queue", queue=8)
        await send(broker, "first queue", queue=0)
        assert bodies(await receive(broker)) == ["eighth queue", "4", "first queue"]


@pytest.mark.parametrize("kind", ["mixed", "normal", "fifo"])
async def test_a_topic_of_another_type_is_not_consumed_by_priority(kind: str) -> None:
    async with running_broker() as broker:
        await create(broker, kind=kind)
        for priority in (3, 9, 5):
            assert await send_priority(broker, priority) == priority
        assert bodies(await receive(broker)) == ["3", "9", "5"]


async def test_a_change_of_the_type_takes_effect_at_once() -> None:
    async with running_broker() as broker:
        await create(broker, kind="mixed")
        for priority in (3, 9, 5):
            await send_priority(broker, priority)
        assert bodies(await receive(broker, 1)) == ["3"]
        await create(broker)
        assert bodies(await receive(broker)) == ["9", "5"]


async def test_redeliveries_of_ten_priorities_come_after_new_messages() -> None:
    async with running_broker() as broker:
        await create(broker)
        for priority in range(TEN):
            await send_priority(broker, priority)
        first = await pop(broker, 4)
        assert takes(first) == [("9", 1), ("8", 1), ("7", 1), ("6", 1)]
        await broker.mover.advance(INVISIBLE_US)
        for priority in range(TEN):
            await send_priority(broker, priority, f"new {priority}")
        found = await pop(broker)
        fresh = [body for priority in range(9, -1, -1) for body in (str(priority), f"new {priority}")]
        assert takes(found[:-4]) == [(body, 1) for body in fresh if body not in ("9", "8", "7", "6")]
        assert takes(found[-4:]) == [("6", 2), ("7", 2), ("8", 2), ("9", 2)]  # oldest first
        assert await acknowledge(broker, *found) == [True] * 20
        assert await pop(broker) == []


async def test_messages_given_back_come_after_new_ones_until_they_are_dead_letters() -> None:
    async with running_broker() as broker:
        await create(broker)
        await broker.registry.groups.put(GROUP, 2, 1)
        for attempt in range(1, 4):
            if attempt == 1:
                for priority in range(TEN):
                    await send_priority(broker, priority)
            else:
                await broker.mover.advance(3_600 * S)
                await send_priority(broker, 0, "new")
            taken = await receive(broker)
            expected = [(body, 1) for body in HIGHEST_FIRST] if attempt == 1 else [("new", 1)]
            assert [(one.message.body.decode(), one.reconsumed + 1) for one in taken][
                : len(expected)
            ] == expected
            if attempt > 1:
                assert {one.reconsumed + 1 for one in taken[1:]} == {attempt}
                assert sorted(bodies(taken[1:])) == sorted(HIGHEST_FIRST)
                await broker.settler.acknowledge(GROUP, [taken.pop(0).handle])
            assert all(PRIORITY in one.message.properties for one in taken)
            await give_back(broker, taken)
        await broker.mover.advance(3_600 * S)
        assert await receive(broker) == []
        dead = await receive(broker, topic=f"%DLQ%{GROUP}", group="undertaker")
        assert sorted(bodies(dead)) == sorted(HIGHEST_FIRST)


async def test_an_invisible_time_of_zero_makes_a_redelivery() -> None:
    async with running_broker() as broker:
        await create(broker)
        await send_priority(broker, 9)
        await send_priority(broker, 1)
        [nine] = await receive(broker, 1)
        await broker.settler.extend(GROUP, [nine.handle], 0)
        assert takes(await receive(broker)) == [("1", 1), ("9", 2)]


@pytest.mark.parametrize(("factor", "by_priority"), [(100, 100), (50, 50), (1, 1), (0, 0)])
async def test_the_factor_is_the_share_of_receives_by_priority(factor: int, by_priority: int) -> None:
    async with running_broker() as broker:
        await create(broker, queues=2)
        await set_factor(broker, factor)
        for _ in range(200):
            await send_priority(broker, 0)
        for _ in range(200):
            await send_priority(broker, 1)
        for _ in range(2):
            found = [bodies(await receive(broker, 1)) for _ in range(100)]
            assert found == [["1"]] * by_priority + [["0"]] * (100 - by_priority)


async def test_receives_that_find_nothing_do_not_count() -> None:
    async with running_broker() as broker:
        await create(broker)
        await set_factor(broker, 1)
        for _ in range(3):
            assert await pop(broker) == []
        for priority in (3, 9, 5):
            await send_priority(broker, priority)
        assert bodies(await receive(broker, 1)) == ["9"]
        assert bodies(await receive(broker)) == ["3", "5"]


async def test_redeliveries_come_first_in_a_receive_that_is_not_by_priority() -> None:
    async with running_broker() as broker:
        await create(broker)
        await set_factor(broker, 0)
        for priority in (3, 9):
            await send_priority(broker, priority)
        [three] = await receive(broker, 1)
        await broker.settler.extend(GROUP, [three.handle], 0)
        await send_priority(broker, 5)
        assert takes(await receive(broker)) == [("3", 2), ("9", 1), ("5", 1)]


async def test_an_ordered_consumer_gets_no_priorities() -> None:
    async with running_broker() as broker:
        await create(broker)
        for priority in (3, 9, 5):
            await send_priority(broker, priority)
        assert bodies(await receive(broker, 1, ordered=True)) == ["3"]
        assert bodies(await receive(broker, ordered=True)) == ["9", "5"]


async def test_a_pop_of_one_queue_gets_its_new_messages_before_redeliveries() -> None:
    async with running_broker() as broker:
        await create(broker)
        await send_priority(broker, 5)
        await send_priority(broker, 2)
        [five] = await receive(broker, 1)
        await broker.settler.extend(GROUP, [five.handle], 0)
        target = await broker.pops.admit(GROUP, TOPIC, 2)
        assert takes(list((await broker.pops.pop(target, 32, INVISIBLE_US)).messages)) == [("2", 1), ("5", 2)]


async def test_a_waiting_pop_gets_a_message_of_any_priority() -> None:
    async with running_broker() as broker:
        await create(broker)
        waiting = await waiting_pop(broker)
        await send_priority(broker, 2)
        assert bodies(await waiting) == ["2"]


async def test_filters_apply_to_every_priority() -> None:
    async with running_broker() as broker:
        await create(broker)
        for priority in range(TEN):
            await send_priority(broker, priority, TAGS="even" if priority % 2 == 0 else "odd")
        assert bodies(await receive(broker, 2, tags="even")) == ["8", "6"]
        assert bodies(await receive(broker, tags="even")) == ["4", "2", "0"]
        by_sql = await receive(broker, sql=f"{PRIORITY} > 5", group="by-sql")
        assert bodies(by_sql) == ["9", "8", "7", "6"]


async def test_priorities_and_the_factor_survive_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await create(broker)
        await set_factor(broker, 100)
        for priority in range(TEN):
            await send_priority(broker, priority)
        assert bodies(await receive(broker, 1)) == ["9"]
    async with running_broker(tmp_path) as broker:
        assert broker.registry.groups.get(GROUP).config.priority_factor == 100
        assert bodies(await receive(broker)) == HIGHEST_FIRST[1:]


async def test_a_large_message_ends_a_receive_by_priority() -> None:
    async with running_broker() as broker:
        await create(broker)
        for priority in (0, 1):
            await send_priority(broker, priority, "x" * 3_000_000)
        sizes = [len(one.message.body) for one in await receive(broker)]
        assert sizes == [3_000_000]
        assert len(await receive(broker)) == 1


NOT_WITH = (
    "none together with the property {}, as a delayed, ordered or transactional message cannot have a"
    " priority"
)


@pytest.mark.parametrize(
    ("properties", "refusal"),
    [
        ({PRIORITY: "-1"}, f"property {PRIORITY} is '-1'; allowed: a whole number from 0 to 2147483647"),
        ({PRIORITY: "high"}, "allowed: a whole number from 0 to 2147483647"),
        ({PRIORITY: "2147483648"}, "allowed: a whole number from 0 to 2147483647"),
        ({PRIORITY: "1", "DELAY": "3"}, NOT_WITH.format("DELAY")),
        ({PRIORITY: "1", "TIMER_DELAY_MS": "5"}, NOT_WITH.format("TIMER_DELAY_MS")),
        ({PRIORITY: "1", "__STARTDELIVERTIME": "5"}, NOT_WITH.format("__STARTDELIVERTIME")),
        ({PRIORITY: "1", "__SHARDINGKEY": "k"}, NOT_WITH.format("__SHARDINGKEY")),
    ],
)
async def test_a_priority_without_effect_is_refused(properties: dict[str, str], refusal: str) -> None:
    async with running_broker() as broker:
        await create(broker)
        with pytest.raises(IllegalMessageError) as refused:
            await broker.sender.send(Message(TOPIC, b"hello", properties))
        assert refused.value.field == "priority"
        assert refusal in str(refused.value)
        assert await receive(broker) == []


def priority_message() -> Message:
    return Message(TOPIC, b"hello", {PRIORITY: "1"})


async def test_messages_that_share_a_queue_have_no_priority() -> None:
    async with running_broker() as broker:
        await create(broker)
        with pytest.raises(IllegalMessageError, match="the messages of a batch share a queue"):
            await broker.sender.send_together([Message(TOPIC, b"plain"), priority_message()])
        with pytest.raises(IllegalMessageError, match="a transactional message cannot have one"):
            await broker.half_messages.prepare_checked(priority_message(), "makers")
        assert await receive(broker) == []


async def test_each_message_of_an_atomic_batch_has_its_own_priority() -> None:
    async with running_broker() as broker:
        await create(broker)
        await broker.sender.send_batch(
            [Message(TOPIC, str(n).encode(), {PRIORITY: str(n)}) for n in (1, 8, 3)]
        )
        assert bodies(await receive(broker)) == ["8", "3", "1"]
