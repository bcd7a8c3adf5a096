"""Pending messages can be listed, cancelled, delivered by hand, and looked up with their whole life."""

from pathlib import Path

import pytest

from mocketmq.broker.inspection.history import InterventionRecord
from mocketmq.broker.message_records import ReceiptRecord
from mocketmq.errors import MessageNotFoundError, NotPendingError
from mocketmq.message.message_id import offset_message_id
from mocketmq.schedule.level_queues import PENDING_IN
from mocketmq.store.messages import MAX_SPANS
from tests.support.brokers import (
    GROUP,
    TOPIC,
    S,
    acknowledge,
    bodies,
    give_back,
    receive,
    rows,
    running_broker,
    send,
    visible,
)


async def test_pending_messages_are_listed_in_order_of_sending() -> None:
    async with running_broker() as broker:
        for n, (level, topic) in enumerate([(18, TOPIC), (1, "other"), (1, TOPIC), (5, TOPIC)]):
            await send(broker, str(n), level=level, topic=topic, queue=n)
        await send(broker, "not delayed")
        listed = await broker.pending.list()
        goals = [broker.registry.topics.queue(p.message.real_queue_key or 0) for p in listed]
        assert [
            (p.message.body, p.level, goal.topic, goal.queue_id)
            for p, goal in zip(listed, goals, strict=True)
        ] == [
            (b"0", 18, TOPIC, 0),
            (b"1", 1, "other", 1),
            (b"2", 1, TOPIC, 2),
            (b"3", 5, TOPIC, 3),
        ]
        for chosen, expected in [
            (await broker.pending.list(topic=TOPIC), "023"),
            (await broker.pending.list(level=1), "12"),
            (await broker.pending.list(topic=TOPIC, level=1), "2"),
            (await broker.pending.list(level=7), ""),
            (await broker.pending.list(limit=2), "01"),
            (await broker.pending.list(after=listed[1].message.log_offset), "23"),
        ]:
            assert bodies(p.message for p in chosen) == list(expected)
        await broker.mover.advance(1 * S)
        assert bodies(p.message for p in await broker.pending.list()) == ["0", "3"]


async def test_a_page_of_pending_messages_is_read_in_the_order_of_an_index(tmp_path: Path) -> None:
    async with running_broker(tmp_path):
        plan = rows(tmp_path, f"EXPLAIN QUERY PLAN {PENDING_IN.format('').replace('?', '1')}")
        details = [step["detail"] for step in plan]
        assert "SEARCH messages USING INDEX messages_by_queue (queue_key=? AND queue_offset>?)" in details
        assert not [detail for detail in details if "B-TREE" in detail]


async def test_pages_list_messages_of_more_levels_than_one_query_selects() -> None:
    count = 2 * MAX_SPANS + 1
    async with running_broker(levels=" ".join(f"{count - n}s" for n in range(count))) as broker:
        for level in range(1, count + 1):
            await send(broker, str(level), level=level)
        listed = [*await broker.pending.list(limit=count - 1)]
        listed += await broker.pending.list(after=listed[-1].message.log_offset, limit=count)
        assert bodies(one.message for one in listed) == [str(level) for level in range(1, count + 1)]


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_cancelled_message_is_never_delivered(tmp_path: Path, is_restarted: bool) -> None:
    async with running_broker(tmp_path) as broker:
        sent = [(await send(broker, str(n), level=1)).stored for n in range(3)]
        cancelled = await broker.pending.cancel(sent[1].unique_key)
        assert (cancelled.message, cancelled.level) == (sent[1], 1)
        assert broker.pending.count == 2
        if not is_restarted:
            await broker.mover.advance(60 * S)
    async with running_broker(tmp_path) as broker:
        await broker.mover.advance(60 * S)
        assert bodies(await visible(broker)) == ["0", "2"]
        assert broker.pending.count == 0
        with pytest.raises(NotPendingError):
            await broker.pending.cancel(sent[1].unique_key)


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_message_delivered_by_hand_is_not_delivered_again(tmp_path: Path, is_restarted: bool) -> None:
    async with running_broker(tmp_path) as broker:
        sent = [(await send(broker, str(n), level=1)).stored for n in range(3)]
        await broker.pending.deliver_now(offset_message_id(sent[1].store_host, sent[1].log_offset))
        [delivered] = await visible(broker)
        assert (delivered.unique_key, delivered.store_us) == (sent[1].unique_key, broker.clock.now_us())
        if not is_restarted:
            await broker.mover.advance(60 * S)
    async with running_broker(tmp_path) as broker:
        await broker.mover.advance(60 * S)
        assert bodies(await visible(broker)) == ["1", "0", "2"]
        with pytest.raises(NotPendingError):
            await broker.pending.deliver_now(sent[1].unique_key)


async def test_level_continues_after_its_only_message_is_cancelled() -> None:
    async with running_broker() as broker:
        await broker.pending.cancel((await send(broker, "cancelled", level=1)).stored.unique_key)
        assert broker.timer.next_due_us() is None
        await send(broker, "next", level=1)
        await broker.mover.advance(1 * S)
        assert bodies(await visible(broker)) == ["next"]


async def test_only_pending_messages_can_be_cancelled_or_forced() -> None:
    async with running_broker() as broker:
        at_once = (await send(broker)).stored
        delivered = (await send(broker, level=1)).stored
        await broker.mover.advance(1 * S)
        for act in (broker.pending.cancel, broker.pending.deliver_now):
            for message in (at_once, delivered):
                with pytest.raises(NotPendingError):
                    await act(message.unique_key)
            with pytest.raises(MessageNotFoundError):
                await act("unknown")


async def test_delivering_by_hand_wakes_a_receiver() -> None:
    async with running_broker() as broker:
        sent = await send(broker, level=18)
        with broker.polls.listening((TOPIC,)) as arrival:
            await broker.pending.deliver_now(sent.stored.unique_key)
            assert arrival.is_set()


async def test_a_delayed_retry_is_pending_too() -> None:
    async with running_broker() as broker:
        sent = await send(broker)
        await give_back(broker, await receive(broker))
        [retry] = await broker.pending.list()
        goal = broker.registry.topics.queue(retry.message.real_queue_key or 0)
        assert (retry.level, goal.topic) == (3, f"%RETRY%{GROUP}")
        await broker.pending.deliver_now(sent.stored.unique_key)
        assert [one.message.reconsume_times for one in await receive(broker)] == [1]


# The whole life


async def test_the_history_of_a_message_has_all_its_records_and_events() -> None:
    async with running_broker() as broker:
        parked = (await send(broker, level=1)).stored
        start_us = broker.clock.now_us()
        await broker.mover.advance(1 * S)
        await give_back(broker, await receive(broker, invisible_us=5 * S))
        await broker.pending.deliver_now(parked.unique_key)
        await acknowledge(broker, await receive(broker))
        life = await broker.histories.of(parked.unique_key)
        offsets = [record.log_offset for record in life.records]
        assert offsets == sorted(offsets)
        assert len(offsets) == 4  # parked, delivered, parked as a retry, delivered again
        assert [(d.parked_offset, d.delivered_offset, d.forced) for d in life.deliveries] == [
            (offsets[0], offsets[1], 0),
            (offsets[2], offsets[3], 1),
        ]
        assert life.interventions == [InterventionRecord(offsets[2], "forced", start_us + 1 * S)]
        taken_us = start_us + 1 * S
        assert life.receipts == [
            ReceiptRecord(GROUP, offsets[1], 1, taken_us, taken_us, taken_us + 5 * S, taken_us, "retried"),
            ReceiptRecord(GROUP, offsets[3], 1, taken_us, taken_us, taken_us + 30 * S, taken_us, "acked"),
        ]
        for record in life.records:
            by_id = await broker.histories.records(offset_message_id(record.store_host, record.log_offset))
            assert by_id == life.records


async def test_messages_are_found_by_any_of_their_keys() -> None:
    async with running_broker() as broker:
        first = (await send(broker, KEYS="order-1 customer-7")).stored
        other = (await send(broker, topic="other", KEYS="customer-7")).stored
        assert await broker.histories.by_key("order-1") == [first]
        assert await broker.histories.by_key("customer-7") == [first, other]
        assert await broker.histories.by_key("customer-7", topic="other") == [other]
        assert await broker.histories.by_key("customer") == []


async def test_search_limit_counts_messages_of_the_topic() -> None:
    async with running_broker() as broker:
        for _ in range(3):
            await send(broker, topic="other", KEYS="k")
        mine = (await send(broker, KEYS="k")).stored
        assert await broker.histories.by_key("k", topic=TOPIC, limit=2) == [mine]


async def test_unique_key_resembling_an_offset_id_is_a_unique_key() -> None:
    async with running_broker() as broker:
        await send(broker, "first")
        key = f"{'C0A80001' * 2}{0:016X}"
        await send(broker, "bears a key that ends like the offset of the first", UNIQ_KEY=key)
        assert bodies(await broker.histories.records(key)) == [
            "bears a key that ends like the offset of the first"
        ]
