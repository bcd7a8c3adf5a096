"""Messages in second directories can be inspected, cancelled, delivered by hand, and reset."""

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.broker.inspection.pending import PendingMessage
from mocketmq.broker.sending.sender import SendResult
from mocketmq.errors import (
    MessageNotFoundError,
    NotPendingError,
    TopicNotFoundError,
)
from mocketmq.message.message import Message, StoredMessage
from mocketmq.message.message_id import offset_message_id
from mocketmq.message.names import TIMER_TOPIC
from mocketmq.message.properties import (
    TIMER_DELAY_MS,
    UNIQ_KEY,
)
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.directories.delay_directory import DelayDirectory
from tests.support.brokers import (
    GROUP,
    TOPIC,
    S,
    acknowledge,
    bodies,
    receive,
    rows,
    running_broker,
    send,
    visible,
)
from tests.support.delayed_files import made
from tests.support.patience import HANGING_S, PATIENCE_S
from tests.support.second_directories import (
    HOUR_MS,
    MS,
    in_order_of_delivery,
    listed,
    message_files,
    names_below,
    no_removal_left,
    send_in,
)

# Inspection


async def test_pending_messages_are_listed_by_page_topic_and_level(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        for number, topic in enumerate([TOPIC, "other", TOPIC, "other", TOPIC]):
            await send_in(broker, 9_000 - number, str(number), topic=topic, queue=number % 3)
        await send(broker, "level", level=18)
        everything = await broker.pending.list()
        assert bodies(p.message for p in everything) == ["level", *"01234"], "levels first, then by arrival"
        first = everything[1]
        assert first.level is None
        assert broker.registry.topics.queue(first.message.queue_key).topic == TIMER_TOPIC
        real_queue = broker.registry.topics.queue(first.message.real_queue_key or 0)
        assert (real_queue.topic, real_queue.queue_id) == (TOPIC, 0)
        paged, after = list[str](), -1
        while page := await broker.pending.list(after=after, limit=2):
            paged += bodies(p.message for p in page)
            after = page[-1].message.log_offset
        assert paged == ["level", *"01234"]
        assert await listed(broker, topic="other") == ["1", "3"]
        assert await listed(broker, topic=TOPIC, limit=2) == ["level", "0"]
        assert await listed(broker, topic=TOPIC, after=first.message.log_offset) == ["2", "4"]
        assert await listed(broker, level=18) == ["level"]
        assert await listed(broker, level=1) == []
        with pytest.raises(TopicNotFoundError):
            await broker.pending.list(topic="none")
        await broker.mover.move_to_next()
        assert await listed(broker) == ["level", *"0123"]


async def test_messages_of_a_topic_are_found_among_many_others() -> None:
    async with running_broker() as broker:
        for topic, count in (("many", 1_000), (TOPIC, 3), ("many", 100), (TOPIC, 1)):
            await broker.sender.send_batch(
                [Message(topic, b"%d" % number, {TIMER_DELAY_MS: "1000"}) for number in range(count)]
            )
        assert await listed(broker, topic=TOPIC) == [*"012", "0"]
        assert len(await listed(broker, topic="many", limit=10_000)) == 1_100


async def test_unreadable_file_does_not_shorten_a_page(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for number in range(6):
            await send_in(broker, 1_000, str(number))
        for path in message_files(tmp_path)[1:4:2]:
            path.write_bytes(b"damaged")
        assert await listed(broker, limit=2) == ["0", "2"]
        assert await listed(broker, limit=3) == ["0", "2", "4"]
        assert await listed(broker, limit=6) == ["0", "2", "4", "5"]


async def check_life(broker: Broker, sent: SendResult, outcome: str, topic: str) -> StoredMessage:
    """Check that a lookup by any id gives the same answer: one record, in this topic."""
    number = sent.stored.log_offset
    deliveries = {
        "delivered": [(number, 0, "directories")],
        "forced": [(number, 1, "directories")],
    }
    offset_id = sent.receipt.offset_message_id
    for message_id in (sent.stored.unique_key, offset_id, offset_id.lower()):
        history = await broker.histories.of(message_id)
        [record], delivered, interventions = history.records, history.deliveries, history.interventions
        assert broker.registry.topics.queue(record.queue_key).topic == topic
        assert record.unique_key == sent.stored.unique_key
        assert [(one.parked_offset, one.forced, one.scheme) for one in delivered] == deliveries.get(
            outcome, []
        )
        assert [one.kind for one in interventions] == (["cancelled"] if outcome == "cancelled" else [])
    return record


async def test_life_is_found_by_each_id_of_a_message(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        sent = [await send_in(broker, HOUR_MS, outcome) for outcome in ("pending", "cancelled", "forced")]
        pending, cancelled, forced = sent
        delivered = await send_in(broker, 1, "delivered")
        assert await check_life(broker, pending, "pending", TIMER_TOPIC) == pending.stored
        await broker.pending.cancel(cancelled.stored.unique_key)
        await broker.pending.deliver_now(forced.receipt.offset_message_id)
        await broker.mover.move_to_next()
        for one, outcome, topic in (
            (pending, "pending", TIMER_TOPIC),
            (cancelled, "cancelled", TIMER_TOPIC),  # a record of the cancelled message stays
            (forced, "forced", TOPIC),
            (delivered, "delivered", TOPIC),
        ):
            record = await check_life(broker, one, outcome, topic)
            assert record.body == one.stored.body
        await acknowledge(broker, await receive(broker))
        [take] = (await broker.histories.of(delivered.receipt.offset_message_id)).receipts
        assert (take.group, take.outcome) == (GROUP, "acked")


async def test_id_of_another_broker_is_not_found() -> None:
    async with running_broker() as broker:
        sent = await send_in(broker, 1_000)
        offset_id = sent.receipt.offset_message_id
        for delivered in (0, 1):
            assert (await broker.mover.advance(delivered * S)).fired == delivered
            for unknown in (f"0A000001{offset_id[8:]}", offset_id[:-1], "none"):
                for act in (
                    broker.histories.records,
                    broker.pending.cancel,
                    broker.pending.deliver_now,
                ):
                    with pytest.raises(MessageNotFoundError):
                        await act(unknown)


# By hand


async def test_a_cancelled_message_is_never_delivered(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        sent = [await send_in(broker, 1_000, str(number)) for number in range(3)]
        done = await broker.pending.cancel(sent[1].receipt.offset_message_id)
        assert (done.message, done.level) == (sent[1].stored, None)
        assert (broker.pending.count, await listed(broker)) == (2, ["0", "2"])
        for act in (broker.pending.cancel, broker.pending.deliver_now):
            for message_id in (sent[1].stored.unique_key, sent[1].receipt.offset_message_id):
                with pytest.raises(NotPendingError):
                    await act(message_id)
        await no_removal_left(broker)
        assert len(message_files(tmp_path)) == 2
    async with running_broker(tmp_path) as broker:
        assert (await broker.mover.advance(60 * S)).fired == 2
        assert await in_order_of_delivery(broker) == ["0", "2"]
        with pytest.raises(NotPendingError):
            await broker.pending.cancel(sent[1].stored.unique_key)


async def test_forced_message_is_delivered_once_without_lateness(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        sent = [await send_in(broker, 1_000, str(number)) for number in range(3)]
        with broker.polls.listening((TOPIC,)) as arrival:
            done = await broker.pending.deliver_now(sent[1].stored.unique_key)
            assert arrival.is_set()
        assert done.message == sent[1].stored
        [message] = await visible(broker)
        assert (message.body, message.store_us) == (b"1", broker.clock.now_us())
        with pytest.raises(NotPendingError):
            await broker.pending.deliver_now(sent[1].stored.unique_key)
    async with running_broker(tmp_path) as broker:
        assert (await broker.mover.advance(60 * S)).fired == 2
        assert await in_order_of_delivery(broker) == ["1", "0", "2"]
        assert broker.schemes.timed().early == 0, "forced is not early"
    forced = rows(tmp_path, "SELECT forced FROM deliveries ORDER BY delivered_offset")
    assert [row["forced"] for row in forced] == [1, 0, 0]


async def test_emptied_second_can_be_used_again(
    anywhere: Path | str,
) -> None:
    async with running_broker(anywhere) as broker:
        for act in (broker.pending.cancel, broker.pending.deliver_now) * 2:
            await act((await send_in(broker, 1_000, "gone")).stored.unique_key)
            assert (broker.pending.count, broker.pending.next_due_us) == (0, None)
            await no_removal_left(broker)
            assert broker.schemes.file_figures().parts == 0
        await send_in(broker, 1_000, "next")
        assert (await broker.mover.advance(1 * S)).fired == 1
        assert await in_order_of_delivery(broker) == ["gone", "gone", "next"]


async def test_intervention_by_number_picks_among_equal_keys(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        sent = [await send_in(broker, 1_000, text, **{UNIQ_KEY: "same"}) for text in "abc"]
        assert len(await broker.histories.records("same")) == 3
        await broker.pending.cancel(sent[1].receipt.offset_message_id)
        assert await listed(broker) == ["a", "c"]
        await broker.pending.deliver_now("same")
        assert await in_order_of_delivery(broker) == ["a"], "the oldest, when it is not said which"
        await broker.mover.advance(1 * S)
        assert await in_order_of_delivery(broker) == ["a", "c"]


async def test_second_of_two_concurrent_interventions_is_refused(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        delivered = []
        for acts in (("cancel", "deliver_now"), ("deliver_now", "cancel"), ("cancel", "cancel")):
            key = (await send_in(broker, 1_000, key_of := "/".join(acts))).stored.unique_key
            results = await asyncio.gather(
                *(getattr(broker.pending, act)(key) for act in acts), return_exceptions=True
            )
            [done] = [act for act, one in zip(acts, results, strict=True) if isinstance(one, PendingMessage)]
            assert sum(isinstance(one, NotPendingError) for one in results) == 1
            delivered += [key_of] if done == "deliver_now" else []
        assert await in_order_of_delivery(broker) == delivered
        assert (await broker.mover.advance(1 * S)).fired == 0


@pytest.mark.parametrize("act", ["cancel", "deliver_now"])
async def test_message_delivered_during_its_lookup_is_too_late(
    anywhere: Path | str, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    async with running_broker(anywhere) as broker:
        key = (await send_in(broker, 1_000)).stored.unique_key
        keys = broker.histories._keys
        look_up = keys.with_unique_key

        async def look_up_and_lose(*args: Any, **more: Any) -> tuple[list[StoredMessage], int]:
            found = await look_up(*args, **more)
            monkeypatch.setattr(keys, "with_unique_key", look_up)
            await broker.pending.cancel(key)
            return found

        monkeypatch.setattr(keys, "with_unique_key", look_up_and_lose)
        with pytest.raises(NotPendingError):
            await getattr(broker.pending, act)(key)


@pytest.mark.parametrize("act", ["cancel", "deliver_now"])
async def test_a_sender_that_disconnects_leaves_no_pending_message(
    anywhere: Path | str, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    async with running_broker(anywhere) as broker:
        key = (await send_in(broker, 1_000)).stored.unique_key
        transact, begun, go = broker.store.writer._database.transact, asyncio.Event(), asyncio.Event()

        async def held_up(statements: Any, *size: Any) -> None:
            begun.set()
            await go.wait()
            await transact(statements, *size)

        with monkeypatch.context() as patched:
            patched.setattr(broker.store.writer._database, "transact", held_up)
            acting = asyncio.create_task(getattr(broker.pending, act)(key))
            await begun.wait()
            acting.cancel()
            go.set()
            await asyncio.gather(acting, return_exceptions=True)
        assert broker.pending.count == 0
        await broker.reset.all()


# Resets


async def test_a_reset_forgets_pending_messages_for_good(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        sent = [await send_in(broker, 1_000 * number, str(number)) for number in range(1, 4)]
        copies = tmp_path / "copies"
        shutil.copytree(tmp_path / "delay", copies)
        await broker.reset.all()
        assert (broker.pending.count, await listed(broker), await visible(broker)) == (0, [], [])
        assert broker.pending.next_due_us is None
        await no_removal_left(broker)
        assert names_below(tmp_path) == []
        await send(broker, "first of the store again")
        for one in sent:
            for message_id in (one.stored.unique_key, one.receipt.offset_message_id):
                with pytest.raises(MessageNotFoundError):
                    await broker.histories.records(message_id)
        await send_in(broker, 1_000, "after")
    shutil.copytree(copies, tmp_path / "delay", dirs_exist_ok=True)
    async with running_broker(tmp_path) as broker:
        await broker.mover.advance(60 * S)
        assert await in_order_of_delivery(broker) == ["first of the store again", "after"]


async def test_a_reset_of_a_topic_cancels_only_its_pending_messages(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for number in range(4):
            await send_in(broker, 1_000, str(number), topic=(TOPIC, "other")[number % 2])
        await send(broker, "level", topic="other", level=1)
        await broker.reset.topic(TOPIC)
        assert await listed(broker) == ["level", "1", "3"]
        await no_removal_left(broker)
        assert len(message_files(tmp_path)) == 2
    async with running_broker(tmp_path) as broker:
        assert (await broker.mover.advance(1 * S)).fired == 3
        assert await visible(broker) == []
        assert bodies(await visible(broker, "other")) == ["level", "1", "3"]


# After a commit of a half message


async def test_committed_half_message_is_found_by_the_id_of_its_half() -> None:
    async with running_broker() as broker:
        half = await broker.popped_halves.prepare(Message(TOPIC, b"half", {TIMER_DELAY_MS: "60000"}), 20 * S)
        await send(broker, "level", level=18)
        await send_in(broker, 60_000, "later")
        await broker.popped_halves.commit(TOPIC, [half.handle])
        pages, after = list[str](), -1
        while page := await broker.pending.list(after=after, limit=1):
            pages += bodies(one.message for one in page)
            after = page[0].message.log_offset
        assert pages == await listed(broker) == ["half", "level", "later"]
        first = (await broker.pending.list())[0].message
        assert first.log_offset == half.stored.log_offset
        half_id = (await broker.histories.of(half.stored.unique_key)).records[0]
        assert half_id == half.stored
        message_id = offset_message_id(first.store_host, first.log_offset)
        done = await broker.pending.cancel(message_id)
        assert (done.message, broker.pending.count) == (first, 2)


async def test_a_second_commit_during_the_save_is_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = DelayDirectory.write, list[Entry]()
    begun, hold = threading.Event(), threading.Event()

    def write_slowly(directory: DelayDirectory, entry: Entry, content: bytes) -> None:
        written.append(entry)
        begun.set()
        assert hold.wait(HANGING_S)
        write(directory, entry, content)

    async with running_broker(tmp_path) as broker:
        half = await broker.popped_halves.prepare(Message(TOPIC, b"half", {TIMER_DELAY_MS: "1"}), 20 * S)
        await broker.mover.advance(10 * MS)  # now overdue, so each commit picks another instant
        monkeypatch.setattr(DelayDirectory, "write", write_slowly)
        gone = asyncio.create_task(broker.popped_halves.commit(TOPIC, [half.handle]))
        assert await asyncio.to_thread(begun.wait, HANGING_S)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        assert (await broker.popped_halves.commit(TOPIC, [half.handle])).done == []
        hold.set()
        async with asyncio.timeout(PATIENCE_S):
            while not broker.half_messages.committed:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await broker.mover.advance(1 * S)
        assert (len(written), broker.pending.count) == (1, 0)
        assert await in_order_of_delivery(broker) == ["half"]


async def test_duplicate_file_under_two_due_times_is_delivered_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        now_ms = broker.clock.now_us() // MS
    for delay_ms in (1_000, 1_001):
        made(due_ms=now_ms + delay_ms).put(tmp_path / "delay")
    async with running_broker(tmp_path) as broker:
        await send_in(broker, 1_001, "other")
        assert (await broker.mover.advance(2 * S)).fired == 2
        assert await in_order_of_delivery(broker) == ["hello", "other"]
        assert (broker.pending.count, broker.schemes.file_figures().repeats) == (0, 1)


@pytest.mark.parametrize(
    "acts", [("deliver_now", "deliver_now"), ("deliver_now", "cancel"), ("cancel", "cancel")]
)
async def test_duplicate_file_under_two_due_times_is_forced_once(
    tmp_path: Path, acts: tuple[str, str]
) -> None:
    async with running_broker(tmp_path) as broker:
        now_ms = broker.clock.now_us() // MS
    for delay_ms in (60_000, 65_000):
        made(due_ms=now_ms + delay_ms).put(tmp_path / "delay")
    async with running_broker(tmp_path) as broker:
        key = (await broker.pending.list())[0].message.unique_key
        results = await asyncio.gather(
            *(getattr(broker.pending, act)(key) for act in acts), return_exceptions=True
        )
        [done] = [act for act, one in zip(acts, results, strict=True) if isinstance(one, PendingMessage)]
        assert sum(isinstance(one, NotPendingError) for one in results) == 1
        assert broker.store.writer.failures == 0
        await broker.mover.advance(120 * S)
        assert await in_order_of_delivery(broker) == ["hello"] * (done == "deliver_now")


@pytest.mark.parametrize("is_all", [True, False])
async def test_duplicate_file_under_two_due_times_is_reset(tmp_path: Path, is_all: bool) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker)
        now_ms = broker.clock.now_us() // MS
    for delay_ms in (1_000, 1_001):
        made(due_ms=now_ms + delay_ms).put(tmp_path / "delay")
    async with running_broker(tmp_path) as broker:
        await (broker.reset.all() if is_all else broker.reset.topic(TOPIC))
        assert broker.pending.count == 0
        assert (await broker.mover.advance(2 * S)).fired == 0
