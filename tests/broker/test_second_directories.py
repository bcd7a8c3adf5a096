"""Second directories seen from the broker: kept, delivered, looked at, cancelled, forced, restarted."""

import asyncio
import os
import random
import shutil
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mocketmq.broker.broker import Broker, Sent
from mocketmq.broker.consuming.receipts import Taken
from mocketmq.broker.looking.pending import PendingMessage
from mocketmq.broker.upkeep.retention import Retention
from mocketmq.clock import Clock
from mocketmq.errors import (
    EmulatorError,
    IllegalMessageError,
    InternalError,
    MessageNotFoundError,
    NotPendingError,
    StoreFullError,
    StoreUnavailableError,
    TopicNotFoundError,
    wire_codes,
)
from mocketmq.message.message import Message, StoredMessage
from mocketmq.message.names import TIMER_TOPIC
from mocketmq.message.properties import (
    DELAY,
    START_DELIVER_TIME,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMERS,
    UNIQ_KEY,
    decode_properties,
)
from mocketmq.store.database import MEMORY, Database
from mocketmq_compat.delay import second_directories
from mocketmq_compat.delay.delay_directory import DelayDirectory
from mocketmq_compat.delay.delayed_file import Entry, decode
from mocketmq_compat.delay.second_directories import BATCH
from prometheus_client.parser import text_string_to_metric_families

from tests.support.api import running_api
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
from tests.support.timed import (
    MS,
    files_of,
    message_files,
    names_below,
    no_removal_left,
    send_in,
    turn_by_hand,
)

HOUR_MS = 3_600_000
WALL_US = 1_700_000_000_000 * MS
"""Where the wall clock stands for those who need to know."""


@pytest.fixture(params=["disk", "memory"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where a broker keeps its messages; it must make no difference."""
    return tmp_path if request.param == "disk" else MEMORY


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the wall clock stand, so that what a client computes from it is known."""
    monkeypatch.setattr("mocketmq.app.Clock", partial(Clock, wall=lambda: WALL_US))


async def listed(broker: Broker, **how: Any) -> list[str]:
    return bodies(pending.message for pending in await broker.pending.list(**how))


async def in_order_of_delivery(broker: Broker) -> list[str]:
    return bodies(await visible(broker))


# Kept


async def test_a_message_lies_whole_in_the_directory_of_its_second(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        now_us = broker.clock.now_us()
        sent = await send(broker, "hällo", queue=2, tag="A", own="mine", **{TIMER_DELAY_MS: "1500"})
        due_us = now_us + 1_500 * MS
        assert (sent.stored.due_us, sent.stored.store_us, sent.level) == (due_us, now_us, 0)
        [path] = message_files(tmp_path)
        assert path.parent == tmp_path / "delay" / str(due_us // S)
        header, body = decode(path.read_bytes())
        assert (header.topic, header.queue_id, header.due_us, header.stored_us) == (TOPIC, 2, due_us, now_us)
        assert (header.properties["own"], body.decode()) == ("mine", "hällo")
        assert path.name == header.entry.name
        assert broker.writer.next_commit_offset == 0, "the store hears of it when it is due"
        assert await visible(broker) == []


async def test_a_message_is_delivered_at_its_millisecond_and_its_file_is_gone(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        due_us = (await send_in(broker, 1_500)).stored.due_us
        assert due_us == broker.clock.now_us() + 1_500 * MS
        assert (await broker.advance_clock(1_500 * MS - 1)).fired == 0
        assert await visible(broker) == []
        assert (await broker.advance_clock(1)).fired == 1
        [message] = await visible(broker)
        assert message.store_us == due_us == broker.clock.now_us()
        await no_removal_left(broker)
        assert names_below(tmp_path) == []


async def test_a_due_time_between_two_milliseconds_is_never_rounded_down(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        now_us = (await broker.advance_clock(1)).now_us
        sent = await send_in(broker, 10)
        assert sent.stored.due_us == now_us - 1 + 11 * MS
        moved = await broker.move_clock_to_next()
        assert (moved.now_us, moved.fired) == (sent.stored.due_us, 1)


@pytest.mark.usefixtures("wall")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        (START_DELIVER_TIME, WALL_US // MS + 7_000),
        (TIMER_DELIVER_MS, WALL_US // MS + 7_000),
        (TIMER_DELAY_SEC, 7),
        (TIMER_DELAY_MS, 7_000),
    ],
)
async def test_every_kind_of_absolute_due_time_is_kept_here(
    anywhere: Path | str, name: str, value: int
) -> None:
    async with running_broker(anywhere) as broker:
        now_us = (await broker.advance_clock(100 * S)).now_us
        due: dict[str, Any] = {name: str(value)}
        sent = await send(broker, **due)
        assert (sent.stored.due_us, broker.timed.pending) == (now_us + 7 * S, 1)
        await broker.move_clock_to_next()
        [message] = await visible(broker)
        assert (message.store_us, decode_properties(message.properties)[name]) == (now_us + 7 * S, str(value))


async def test_everything_about_a_message_survives(anywhere: Path | str) -> None:
    properties = {"KEYS": "k1 k2", "TAGS": "A", "own": "ü\n|:", UNIQ_KEY: "my-key", TIMER_DELAY_MS: "5"}
    message = Message(TOPIC, b"\xff\0\n", dict(properties), 3, 7, 8, 1_234, "10.1.2.3:4567", 2)
    async with running_broker(anywhere) as broker:
        parked = (await broker.send(message)).stored
        await broker.move_clock_to_next()
        [found] = await visible(broker)
        kept = ("flag", "sys_flag", "born_us", "born_host", "reconsume_times", "unique_key", "tag_hash")
        for name in (*kept, "body", "properties"):
            assert getattr(found, name) == getattr(parked, name), name
        assert (found.flag, found.sys_flag, found.born_us, found.born_host) == (7, 8, 1_234, "10.1.2.3:4567")
        assert (found.body, found.reconsume_times) == (b"\xff\0\n", 2)
        assert properties.items() <= decode_properties(found.properties).items()
        assert broker.topics.queue(found.queue_key).queue_id == 3
        assert (found.due_us, found.parked_offset) == (None, parked.commit_offset)
        assert [one.message.body for one in await receive(broker, tags="B || A")] == [b"\xff\0\n"]


async def test_a_delivery_wakes_a_receiver(anywhere: Path | str) -> None:
    async with running_broker(anywhere, clock="real") as broker:
        receiver = asyncio.create_task(receive(broker, wait_s=20))
        due_us = (await send_in(broker, 30)).stored.due_us
        [taken] = await receiver
        assert due_us is not None
        assert taken.message.store_us >= due_us


async def test_a_start_time_that_is_past_is_no_delay(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        for name, value in ((TIMER_DELAY_MS, "0"), (TIMER_DELAY_SEC, "-1"), (START_DELIVER_TIME, "1")):
            due: dict[str, Any] = {name: value}
            sent = await send(broker, **due)
            assert sent.stored.due_us is None
        assert (broker.pending.count, len(await visible(broker))) == (0, 3)


# A delay level wins


async def test_a_delay_level_wins_over_every_absolute_due_time(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        due: dict[str, Any] = dict.fromkeys((START_DELIVER_TIME, *TIMERS), "no number, and nobody looks")
        sent = await send(broker, level=1, **due)
        assert (sent.level, broker.timed.pending, names_below(tmp_path)) == (1, 0, [])
        assert (await broker.advance_clock(1 * S)).fired == 1
        [message] = await visible(broker)
        found = decode_properties(message.properties)
        assert found[START_DELIVER_TIME] == due[START_DELIVER_TIME], "it stays, and does nothing"
        assert not set(TIMERS) & set(found), "these go, as upstream"
    [row] = rows(tmp_path, "SELECT scheme, level FROM deliveries")
    assert row == {"scheme": "levels", "level": 1}


@pytest.mark.parametrize("level", ["0", "-1"])
async def test_a_level_that_is_none_does_not(level: str) -> None:
    async with running_broker() as broker:
        sent = await send_in(broker, 1_000, **{DELAY: level})
        assert (sent.level, broker.timed.pending) == (0, 1)


# Order


async def test_messages_come_in_order_of_their_milliseconds_then_of_arrival(anywhere: Path | str) -> None:
    dice = random.Random(11)
    expected = []
    async with running_broker(anywhere) as broker:
        for number in range(400):
            delay_ms = dice.choice((1, 500, 501, 999, 1_000, 1_001, dice.randrange(1, 3_000)))
            await send_in(broker, delay_ms, str(number))
            expected.append((delay_ms, number))
        assert (await broker.advance_clock(3 * S)).fired == 400
        assert await in_order_of_delivery(broker) == [str(number) for _, number in sorted(expected)]
        assert broker.timed.early == 0


async def test_the_order_of_thousands_in_one_second_outlives_restarts_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(12)
    expected: list[tuple[int, int]] = []  # due millisecond within the second, and arrival
    second_us = 0
    for run in range(3):
        async with running_broker(tmp_path, delay_sync="never") as broker:
            # Though the wall clock is set back in between, what comes later stays behind.
            monkeypatch.setattr(second_directories, "wall_us", partial(int, WALL_US - run * 3_600 * S))
            second_us = second_us or (broker.clock.now_us() // S + 2) * S
            numbers = range(1_000 * run, 1_000 * (run + 1))
            due = [(dice.randrange(1_000), number) for number in numbers]
            before_ms = (second_us - broker.clock.now_us()) // MS
            await asyncio.gather(*(send_in(broker, before_ms + ms, str(number)) for ms, number in due))
            expected += due
    for until_ms in (250, 600, 999):
        async with running_broker(tmp_path) as broker:
            await broker.move_clock_to(second_us + until_ms * MS)
            due = sorted(one for one in expected if one[0] <= until_ms)
            assert await in_order_of_delivery(broker) == [str(number) for _, number in due]
            assert broker.pending.count == 3_000 - len(due)


async def test_both_schemes_deliver_in_the_order_of_their_times(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        for delay_ms in (10_000, 999, 7_000, 4_999, 5_001):
            await send_in(broker, delay_ms, f"{delay_ms} at a time")
        for level, delay_ms in ((1, 1_000), (2, 5_000), (3, 10_000)):
            await send(broker, f"{delay_ms} by level", level=level)
        await broker.advance_clock(60 * S)
        found = await in_order_of_delivery(broker)
        assert found[:-2] == [
            *("999 at a time", "1000 by level", "4999 at a time", "5000 by level", "5001 at a time"),
            "7000 at a time",
        ]
        assert sorted(found[-2:]) == ["10000 at a time", "10000 by level"]


# Looking


async def test_pending_messages_are_listed_by_page_topic_and_level(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        for number, topic in enumerate([TOPIC, "other", TOPIC, "other", TOPIC]):
            await send_in(broker, 9_000 - number, str(number), topic=topic, queue=number % 3)
        await send(broker, "level", level=18)
        everything = await broker.pending.list()
        assert bodies(p.message for p in everything) == ["level", *"01234"], "levels first, then by arrival"
        first = everything[1]
        assert first.level is None
        assert broker.topics.queue(first.message.queue_key).topic == TIMER_TOPIC
        real_queue = broker.topics.queue(first.message.real_queue_key or 0)
        assert (real_queue.topic, real_queue.queue_id) == (TOPIC, 0)
        paged, after = list[str](), -1
        while page := await broker.pending.list(after=after, limit=2):
            paged += bodies(p.message for p in page)
            after = page[-1].message.commit_offset
        assert paged == ["level", *"01234"]
        assert await listed(broker, topic="other") == ["1", "3"]
        assert await listed(broker, topic=TOPIC, limit=2) == ["level", "0"]
        assert await listed(broker, topic=TOPIC, after=first.message.commit_offset) == ["2", "4"]
        assert await listed(broker, level=18) == ["level"]
        assert await listed(broker, level=1) == []
        with pytest.raises(TopicNotFoundError):
            await broker.pending.list(topic="none")
        await broker.move_clock_to_next()
        assert await listed(broker) == ["level", *"0123"]


async def test_many_messages_of_a_topic_are_found_among_many_of_others() -> None:
    async with running_broker() as broker:
        for topic, count in (("many", 1_000), (TOPIC, 3), ("many", 100), (TOPIC, 1)):
            await broker.send_batch(
                [Message(topic, b"%d" % number, {TIMER_DELAY_MS: "1000"}) for number in range(count)]
            )
        assert await listed(broker, topic=TOPIC) == [*"012", "0"]
        assert len(await listed(broker, topic="many", limit=10_000)) == 1_100


async def test_a_page_is_full_though_a_file_in_it_cannot_be_read(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for number in range(6):
            await send_in(broker, 1_000, str(number))
        for path in message_files(tmp_path)[1:4:2]:
            path.write_bytes(b"damaged")
        assert await listed(broker, limit=2) == ["0", "2"]
        assert await listed(broker, limit=3) == ["0", "2", "4"]
        assert await listed(broker, limit=6) == ["0", "2", "4", "5"]


async def check_life(broker: Broker, sent: Sent, outcome: str, topic: str) -> StoredMessage:
    """Whatever id one asks by, the answer is the same: one record, in this topic."""
    number = sent.stored.commit_offset
    deliveries = {
        "delivered": [(number, 0, "second-directories")],
        "forced": [(number, 1, "second-directories")],
    }
    offset_id = sent.reply.offset_message_id
    for message_id in (sent.stored.unique_key, offset_id, offset_id.lower()):
        [record], delivered, interventions, _ = await broker.lives.life(message_id)
        assert broker.topics.queue(record.queue_key).topic == topic
        assert record.unique_key == sent.stored.unique_key
        assert [(one.parked_offset, one.forced, one.scheme) for one in delivered] == deliveries.get(
            outcome, []
        )
        assert [one.kind for one in interventions] == (["cancelled"] if outcome == "cancelled" else [])
    return record


async def test_the_life_of_a_message_can_be_asked_for_by_any_of_its_ids(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        sent = [await send_in(broker, HOUR_MS, outcome) for outcome in ("pending", "cancelled", "forced")]
        pending, cancelled, forced = sent
        delivered = await send_in(broker, 1, "delivered")
        assert await check_life(broker, pending, "pending", TIMER_TOPIC) == pending.stored
        await broker.pending.cancel(cancelled.stored.unique_key)
        await broker.pending.deliver_now(forced.reply.offset_message_id)
        await broker.move_clock_to_next()
        for one, outcome, topic in (
            (pending, "pending", TIMER_TOPIC),
            (cancelled, "cancelled", TIMER_TOPIC),  # a record of it stays
            (forced, "forced", TOPIC),
            (delivered, "delivered", TOPIC),
        ):
            record = await check_life(broker, one, outcome, topic)
            assert record.body == one.stored.body
        await acknowledge(broker, await receive(broker))
        [take] = (await broker.lives.life(delivered.reply.offset_message_id)).takes
        assert (take.group, take.outcome) == (GROUP, "acked")


async def test_an_id_of_another_broker_is_not_taken_for_one_of_this() -> None:
    async with running_broker() as broker:
        sent = await send_in(broker, 1_000)
        offset_id = sent.reply.offset_message_id
        for delivered in (0, 1):
            assert (await broker.advance_clock(delivered * S)).fired == delivered
            for unknown in (f"0A000001{offset_id[8:]}", offset_id[:-1], "none"):
                for act in (broker.lives.records, broker.pending.cancel, broker.pending.deliver_now):
                    with pytest.raises(MessageNotFoundError):
                        await act(unknown)


# By hand


async def test_what_is_cancelled_is_never_delivered(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        sent = [await send_in(broker, 1_000, str(number)) for number in range(3)]
        done = await broker.pending.cancel(sent[1].reply.offset_message_id)
        assert (done.message, done.level) == (sent[1].stored, None)
        assert (broker.pending.count, await listed(broker)) == (2, ["0", "2"])
        for act in (broker.pending.cancel, broker.pending.deliver_now):
            for message_id in (sent[1].stored.unique_key, sent[1].reply.offset_message_id):
                with pytest.raises(NotPendingError):
                    await act(message_id)
        await no_removal_left(broker)
        assert len(message_files(tmp_path)) == 2
    async with running_broker(tmp_path) as broker:
        assert (await broker.advance_clock(60 * S)).fired == 2
        assert await in_order_of_delivery(broker) == ["0", "2"]
        with pytest.raises(NotPendingError):
            await broker.pending.cancel(sent[1].stored.unique_key)


async def test_what_is_delivered_by_hand_is_delivered_once_and_not_late(tmp_path: Path) -> None:
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
        assert (await broker.advance_clock(60 * S)).fired == 2
        assert await in_order_of_delivery(broker) == ["1", "0", "2"]
        assert broker.timed.early == 0, "forced is not early"
    forced = rows(tmp_path, "SELECT forced FROM deliveries ORDER BY delivered_offset")
    assert [row["forced"] for row in forced] == [1, 0, 0]


async def test_the_last_message_of_a_second_can_be_taken_out_and_the_second_used_again(
    anywhere: Path | str,
) -> None:
    async with running_broker(anywhere) as broker:
        for act in (broker.pending.cancel, broker.pending.deliver_now) * 2:
            await act((await send_in(broker, 1_000, "gone")).stored.unique_key)
            assert (broker.pending.count, broker.pending.next_due_us) == (0, None)
            assert broker.timed.state().directories == 0
        await send_in(broker, 1_000, "next")
        assert (await broker.advance_clock(1 * S)).fired == 1
        assert await in_order_of_delivery(broker) == ["gone", "gone", "next"]


async def test_of_several_with_one_key_the_one_that_is_named_is_taken(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        sent = [await send_in(broker, 1_000, text, **{UNIQ_KEY: "same"}) for text in "abc"]
        assert len(await broker.lives.records("same")) == 3
        await broker.pending.cancel(sent[1].reply.offset_message_id)
        assert await listed(broker) == ["a", "c"]
        await broker.pending.deliver_now("same")
        assert await in_order_of_delivery(broker) == ["a"], "the oldest, when it is not said which"
        await broker.advance_clock(1 * S)
        assert await in_order_of_delivery(broker) == ["a", "c"]


async def test_of_two_at_the_same_time_one_is_told_that_it_is_too_late(anywhere: Path | str) -> None:
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
        assert (await broker.advance_clock(1 * S)).fired == 0


@pytest.mark.parametrize("act", ["cancel", "deliver_now"])
async def test_what_leaves_while_it_is_looked_up_is_too_late_and_not_unknown(
    anywhere: Path | str, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    async with running_broker(anywhere) as broker:
        key = (await send_in(broker, 1_000)).stored.unique_key
        keys = broker.lives._keys
        look_up = keys.with_unique_key

        async def look_up_and_lose(unique_key: str) -> list[StoredMessage]:
            found = await look_up(unique_key)
            monkeypatch.setattr(keys, "with_unique_key", look_up)
            await broker.pending.cancel(unique_key)
            return found

        monkeypatch.setattr(keys, "with_unique_key", look_up_and_lose)
        with pytest.raises(NotPendingError):
            await getattr(broker.pending, act)(key)


@pytest.mark.parametrize("act", ["cancel", "deliver_now"])
async def test_who_goes_away_meanwhile_leaves_nothing_that_waits(
    anywhere: Path | str, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    async with running_broker(anywhere) as broker:
        key = (await send_in(broker, 1_000)).stored.unique_key
        transact, begun, go = broker.writer._database.transact, asyncio.Event(), asyncio.Event()

        async def held_up(statements: Any) -> None:
            begun.set()
            await go.wait()
            await transact(statements)

        with monkeypatch.context() as patched:
            patched.setattr(broker.writer._database, "transact", held_up)
            acting = asyncio.create_task(getattr(broker.pending, act)(key))
            await begun.wait()
            acting.cancel()
            go.set()
            await asyncio.gather(acting, return_exceptions=True)
        assert broker.pending.count == 0
        await broker.reset.all()


# Resets


async def test_a_reset_forgets_what_waits_for_good(tmp_path: Path) -> None:
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
            for message_id in (one.stored.unique_key, one.reply.offset_message_id):
                with pytest.raises(MessageNotFoundError):
                    await broker.lives.records(message_id)
        await send_in(broker, 1_000, "after")
    shutil.copytree(copies, tmp_path / "delay", dirs_exist_ok=True)
    async with running_broker(tmp_path) as broker:
        await broker.advance_clock(60 * S)
        assert await in_order_of_delivery(broker) == ["first of the store again", "after"]


async def test_a_reset_of_a_topic_cancels_what_waits_for_it_and_nothing_else(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for number in range(4):
            await send_in(broker, 1_000, str(number), topic=(TOPIC, "other")[number % 2])
        await send(broker, "level", topic="other", level=1)
        await broker.reset.topic(TOPIC)
        assert await listed(broker) == ["level", "1", "3"]
        await no_removal_left(broker)
        assert len(message_files(tmp_path)) == 2
    async with running_broker(tmp_path) as broker:
        assert (await broker.advance_clock(1 * S)).fired == 3
        assert await visible(broker) == []
        assert bodies(await visible(broker, "other")) == ["level", "1", "3"]


# Batches


def batch_of(*properties: dict[str, str]) -> list[Message]:
    return [Message(TOPIC, b"%d" % number, dict(given), 0) for number, given in enumerate(properties)]


MIXED: tuple[dict[str, str], ...] = (
    {TIMER_DELAY_MS: "1001"},
    {},
    {DELAY: "1"},
    {TIMER_DELAY_MS: "500"},
    {TIMER_DELAY_MS: "0"},
)


async def test_each_message_of_a_batch_has_its_own_delay(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        sent = await broker.send_batch(batch_of(*MIXED))
        assert broker.sent == 5
        now_us = broker.clock.now_us()
        due = [one.stored.due_us for one in sent]
        assert due == [now_us + 1_001 * MS, None, now_us + 1 * S, now_us + 500 * MS, None]
        assert len({one.reply for one in sent}) == 5
        assert await in_order_of_delivery(broker) == ["1", "4"]
        assert (broker.pending.count, broker.timed.pending) == (3, 2)
        await broker.advance_clock(2 * S)
        assert await in_order_of_delivery(broker) == ["1", "4", "3", "2", "0"]


async def nothing_was_kept(broker: Broker, data: Path) -> None:
    await no_removal_left(broker)
    assert (broker.pending.count, broker.sent, message_files(data)) == (0, 0, [])
    assert broker.timed.state().disk_bytes == 0
    await broker.advance_clock(60 * S)
    if broker.topics.find(TOPIC):
        assert await visible(broker) == []


async def test_a_batch_with_one_that_is_refused_is_refused_as_a_whole(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for wrong in ({START_DELIVER_TIME: "tomorrow"}, {TIMER_DELAY_SEC: "259201"}, {"a": ""}):
            with pytest.raises(IllegalMessageError):
                await broker.send_batch(batch_of(*MIXED, wrong))
        await nothing_was_kept(broker, tmp_path)


async def test_a_batch_whose_sender_goes_away_is_stored_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.topics.ensure(TOPIC, 4)
        keep, keeping = broker.timed.keep, asyncio.Event()

        async def seen(*args: Any) -> Any:
            keeping.set()
            return await keep(*args)

        monkeypatch.setattr(broker.timed, "keep", seen)
        sender = asyncio.create_task(broker.send_batch(batch_of(*MIXED)))
        await keeping.wait()
        sender.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sender
        with broker.polls.listening([TOPIC]) as arrival:
            async with asyncio.timeout(30):
                while not await visible(broker):
                    await arrival.wait()
        assert await in_order_of_delivery(broker) == ["1", "4"]
        assert (broker.pending.count, broker.timed.pending) == (3, 2)


async def test_a_batch_whose_commit_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, topics=()) as broker:
        await broker.topics.ensure(TOPIC, 4)

        async def fail(*_: object) -> None:
            assert len(message_files(tmp_path)) == 2, "the files go first"
            raise StoreUnavailableError("no space left")

        with monkeypatch.context() as patch:
            patch.setattr(Database, "transact", fail)
            with pytest.raises(StoreUnavailableError):
                await broker.send_batch(batch_of(*MIXED))
        await nothing_was_kept(broker, tmp_path)
        await broker.send_batch(batch_of(*MIXED))
        assert broker.pending.count == 3


async def test_a_batch_of_which_one_file_cannot_be_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        write, written = DelayDirectory.write, list[Entry]()

        def fail_at_the_last(directory: DelayDirectory, entry: Entry, content: bytes) -> None:
            if len(written) == 2:
                raise OSError(28, "No space left on device")
            written.append(entry)
            write(directory, entry, content)

        with monkeypatch.context() as patch:
            patch.setattr(DelayDirectory, "write", fail_at_the_last)
            with pytest.raises(StoreUnavailableError, match="No space left"):
                await broker.send_batch(batch_of(*MIXED, {TIMER_DELAY_MS: "1500"}))
        assert len(written) == 2
        await nothing_was_kept(broker, tmp_path)


async def test_a_batch_beyond_the_quota_leaves_nothing_behind(tmp_path: Path) -> None:
    async with running_broker(tmp_path, delay_quota_bytes=2 * 4_096) as broker:
        with pytest.raises(StoreFullError):
            await broker.send_batch(batch_of(*[{TIMER_DELAY_MS: "1000"}] * 3))
        await nothing_was_kept(broker, tmp_path)
        await broker.send_batch(batch_of(*[{TIMER_DELAY_MS: "1000"}] * 2))


# Disk


async def test_the_quota_refuses_what_does_not_fit_until_something_was_delivered(
    anywhere: Path | str,
) -> None:
    async with running_broker(anywhere, delay_quota_bytes=4 * 4_096) as broker:
        for delay_ms in (1_000, 2_000, 2_001):
            await send_in(broker, delay_ms)
        assert broker.timed.state().disk_bytes == 3 * 4_096
        with pytest.raises(StoreFullError, match="--delay-quota") as full:
            await send_in(broker, 1, "x" * 4_096)
        assert wire_codes(full.value) == (507, 14, "InternalError")
        assert broker.timed.state().disk_bytes == 3 * 4_096
        await send(broker, "the store has its own limits")
        await send(broker, "level", level=1)
        await broker.advance_clock(1 * S)
        await no_removal_left(broker)
        await send_in(broker, 1, "x" * 4_096)
        await broker.pending.cancel((await broker.pending.list())[0].message.unique_key)
        await no_removal_left(broker)
        assert broker.timed.state().disk_bytes == 3 * 4_096


async def test_the_disk_is_counted_from_what_is_there_at_the_start(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send_in(broker, 1_000, "x" * 4_096)
        await send_in(broker, 5_000)
        before = broker.timed.state()
        assert (before.disk_bytes, before.directories) == (3 * 4_096, 2)
    async with running_broker(tmp_path) as broker:
        assert broker.timed.state() == before
        message_files(tmp_path)[0].write_bytes(b"")
        await broker.advance_clock(1 * S)
        state = broker.timed.state()
        assert (state.pending, state.quarantined) == (1, 1)


async def test_what_is_in_the_quarantine_does_not_count(tmp_path: Path) -> None:
    async with running_broker(tmp_path, delay_quota_bytes=4_096) as broker:
        await send_in(broker, 1_000)
        message_files(tmp_path)[0].write_bytes(b"damaged")
        await broker.advance_clock(1 * S)
        assert broker.timed.state().disk_bytes == 0
        await send_in(broker, 1_000)


@pytest.mark.parametrize(
    ("error", "refusal"),
    [(OSError(5, "Input/output error"), StoreUnavailableError), (RuntimeError("a defect"), InternalError)],
)
async def test_a_write_that_fails_is_refused_and_the_next_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, refusal: type[EmulatorError]
) -> None:
    def fail(*_: object) -> None:
        raise error

    async with running_broker(tmp_path) as broker:
        with monkeypatch.context() as patch:
            patch.setattr(DelayDirectory, "write", fail)
            with pytest.raises(refusal):
                await send_in(broker, 1_000)
        await nothing_was_kept(broker, tmp_path)
        await send_in(broker, 1_000, "next")
        assert await listed(broker) == ["next"]


async def test_a_sync_that_fails_is_refused_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    async with running_broker(tmp_path) as broker:
        with monkeypatch.context() as patch:
            patch.setattr(DelayDirectory, "sync", fail)
            with pytest.raises(StoreUnavailableError):
                await send_in(broker, 1_000)
        await nothing_was_kept(broker, tmp_path)


# In memory


async def test_in_memory_nothing_is_written_and_everything_ends_with_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    turn_by_hand(monkeypatch)
    for _ in range(2):
        async with running_broker(MEMORY) as broker:
            assert broker.pending.count == 0
            await send_in(broker, 1_000, "kept")
            await send_in(broker, 1_000, "delivered")
            await broker.pending.deliver_now((await broker.pending.list())[1].message.unique_key)
            assert (broker.pending.count, await in_order_of_delivery(broker)) == (1, ["delivered"])
            await files_of(broker).turn()
    assert [*os.scandir(tmp_path)] == []


# What is said about it


async def test_metrics_and_the_level_table_show_it_beside_the_levels(tmp_path: Path) -> None:
    async with running_api(data=str(tmp_path)) as api:
        first = await api.send(delay_ms=1_000)
        second = await api.send(delay_ms=60_000)
        await api.send(delay_level=18)

        async def metrics() -> dict[Any, float]:
            answer = await api.call("GET", "/metrics")
            return {
                (sample.name.removeprefix("mocketmq_"), *sample.labels.values()): sample.value
                for family in text_string_to_metric_families(answer.body.decode())
                for sample in family.samples
            }

        levels = await api.ok("GET", "/v1/levels")
        assert levels["levels"][17]["pending"] == 1
        assert sum(level["pending"] for level in levels["levels"]) == 1
        state = levels["second_directories"]
        expected = {"pending": 2, "directories": 2, "disk_bytes": 2 * 4_096, "next_due_ms": first["due_ms"]}
        assert state | expected == state
        assert (state["oldest_overdue_ms"], state["quarantined"], state["unremoved"]) == (None, 0, 0)
        scheme = "second-directories"
        found = await metrics()
        assert found["pending_messages", "", scheme] == 2
        assert found["pending_messages", "18", "levels"] == 1
        assert found["next_due_seconds", "", scheme] == 1
        assert found["overdue_seconds", "", scheme] == 0
        assert found["delay_disk_bytes",] == 2 * 4_096
        await api.ok("POST", "/v1/clock/next")
        await no_removal_left(api.emulator.broker)
        found = await metrics()
        assert (found["pending_messages", "", scheme], found["next_due_seconds", "", scheme]) == (1, 59)
        assert (found["delivered_delayed_messages_total",], found["early_messages_total",]) == (1, 0)
        assert (found["delay_disk_bytes",], found["unremoved_files",]) == (4_096, 0)
        clock = await api.ok("GET", "/v1/clock")
        assert (clock["pending"], clock["next_due_ms"]) == (2, second["due_ms"])


async def test_every_delivery_has_its_row_in_the_ledger(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        now_us = broker.clock.now_us()
        sent = await send(broker, "12345", queue=1, **{TIMER_DELAY_MS: "1500"})
        await broker.advance_clock(2 * S)
        taken = await receive(broker)
        await broker.advance_clock(1 * S)
        await acknowledge(broker, taken)
        [delivered] = await visible(broker)
        await send_in(broker, HOUR_MS, "pending")
    [row] = rows(tmp_path, "SELECT * FROM deliveries")
    due_us = now_us + 1_500 * MS
    assert row == {
        "delivered_offset": delivered.commit_offset,
        "run": 1,
        "parked_offset": sent.stored.commit_offset,
        "unique_key": sent.stored.unique_key,
        "topic": TOPIC,
        "queue_id": 1,
        "queue_offset": 0,
        "scheme": "second-directories",
        "level": None,
        "attempt": 1,
        "size": 5,
        "forced": 0,
        "born_us": now_us,
        "stored_us": now_us,
        "due_us": due_us,
        "picked_us": due_us,
        "delivered_us": due_us,
        "pulled_us": now_us + 2 * S,
        "pulled_by": GROUP,
        "acked_us": now_us + 3 * S,
    }


async def test_retention_leaves_alone_what_waits(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for text in ("pending", "cancelled", "delivered"):
            sent = await send_in(broker, 500 if text == "delivered" else HOUR_MS, text)
            if text == "cancelled":
                await broker.pending.cancel(sent.stored.unique_key)
        await broker.move_clock_to_next()
        retention = Retention(
            broker.pull._database,
            broker.writer,
            broker.topics,
            broker.groups,
            broker.levels,
            age_us=0,
            max_bytes=1,
        )
        assert await retention.turn() == 2, "the record of the cancelled one, and the delivered one"
        assert await listed(broker) == ["pending"]
        assert (await broker.move_clock_to_next()).fired == 1
        assert await in_order_of_delivery(broker) == ["pending"]


# Moves of the clock


async def test_the_clock_moves_to_the_next_of_both_schemes() -> None:
    async with running_broker() as broker:
        start_us = broker.clock.now_us()
        for delay_ms in (500, 999, 1_001):
            await send_in(broker, delay_ms)
        await send(broker, level=1)
        stops = [(await broker.move_clock_to_next()).now_us - start_us for _ in range(4)]
        assert stops == [500 * MS, 999 * MS, 1_000 * MS, 1_001 * MS]


@pytest.mark.parametrize("is_far_by_level", [True, False])
@pytest.mark.parametrize("is_near_by_level", [True, False])
async def test_what_is_sent_during_a_move_is_not_jumped_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_far_by_level: bool, is_near_by_level: bool
) -> None:
    async with running_broker(tmp_path) as broker:
        await (send(broker, "far", level=2) if is_far_by_level else send_in(broker, 5_000, "far"))
        is_sent = False

        async def and_send(real: Callable[..., Awaitable[Any]], *args: object) -> Any:
            """Between choosing what comes next, which is far ahead, and delivering it."""
            nonlocal is_sent
            found = await real(*args)
            if not is_sent:
                is_sent = True
                await (send(broker, "near", level=1) if is_near_by_level else send_in(broker, 1_000, "near"))
            return found

        files, levels = files_of(broker), broker.levels
        if is_far_by_level:
            monkeypatch.setattr(levels, "read_ahead", partial(and_send, levels.read_ahead))
        else:
            monkeypatch.setattr(files, "read", partial(and_send, files.read))
        assert (await broker.advance_clock(10 * S)).fired == 2
        assert await in_order_of_delivery(broker) == ["near", "far"]
    late = rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us <> due_us")
    assert late == []


async def test_a_move_ends_where_the_store_gave_out_and_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        start_us = broker.clock.now_us()
        await send(broker, "level", level=1)
        for delay_ms in (1_001, 5_000):
            await send_in(broker, delay_ms, str(delay_ms))
        transact = Database.transact

        async def fail_after_the_level(database: Database, statements: Any) -> None:
            if broker.levels.delivered:
                raise StoreUnavailableError("no space left")
            await transact(database, statements)

        with monkeypatch.context() as patch:
            patch.setattr(Database, "transact", fail_after_the_level)
            with pytest.raises(StoreUnavailableError):
                await broker.advance_clock(60 * S)
        assert broker.clock.now_us() == start_us + 1 * S
        assert await listed(broker) == ["1001", "5000"]
        assert (await broker.advance_clock(60 * S)).fired == 2
    late = rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us <> due_us")
    assert late == []


async def test_many_due_messages_take_few_transactions(tmp_path: Path) -> None:
    async with running_broker(tmp_path, delay_sync="never") as broker:
        await asyncio.gather(*(send_in(broker, number + 1) for number in range(4 * BATCH)))
        before = broker.writer.commits
        assert (await broker.advance_clock(60 * S)).fired == 4 * BATCH
        assert broker.writer.commits - before < 10


# Restarts


async def test_a_manual_clock_goes_on_and_so_does_what_waits(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for number in range(10):
            await send_in(broker, 1_000 - number, str(number))
        before = await broker.pending.list()
        await broker.advance_clock(990 * MS)
    for _ in range(3):
        async with running_broker(tmp_path) as broker:
            assert await broker.pending.list() == before
            assert broker.pending.next_due_us == before[-1].message.due_us
            await broker.advance_clock(0)
            assert await visible(broker) == []
    async with running_broker(tmp_path) as broker:
        assert (await broker.advance_clock(1 * S)).fired == 10
        assert await in_order_of_delivery(broker) == [str(number) for number in reversed(range(10))]
    late = rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us <> due_us")
    assert late == []


async def test_what_became_due_while_the_broker_was_down_is_delivered_at_the_start(tmp_path: Path) -> None:
    async with running_broker(tmp_path, clock="real") as broker:
        for number in range(3):
            await send_in(broker, HOUR_MS - 60_000 * number, str(number))
    async with running_broker(tmp_path, clock="x1000000") as broker:
        found: list[Taken] = []
        while len(found) < 3:
            found += await receive(broker, wait_s=20)
        assert await in_order_of_delivery(broker) == ["2", "1", "0"]
    early = rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us < due_us")
    assert early == []


async def test_a_real_clock_that_was_moved_keeps_what_waits_as_far_away(tmp_path: Path) -> None:
    async with running_broker(tmp_path, clock="real") as broker:
        await broker.advance_clock(40 * 24 * 3_600 * S)
        due_us = (await send_in(broker, HOUR_MS)).stored.due_us
    async with running_broker(tmp_path, clock="real") as broker:
        assert broker.pending.next_due_us == due_us
        assert due_us is not None
        assert due_us - broker.clock.now_us() < 3_600 * S
        moved = await broker.move_clock_to_next()
        assert (moved.fired, broker.timed.early) == (1, 0)


async def test_a_store_that_is_lost_loses_no_message(tmp_path: Path) -> None:
    async with running_broker(tmp_path, clock="real") as broker:
        await send_in(broker, HOUR_MS, "waits", topic="deep", queue=3)
    for name in ("mocketmq.db", "mocketmq.db-wal", "mocketmq.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    async with running_broker(tmp_path, clock="real") as broker:
        assert await listed(broker) == ["waits"]
        assert (await broker.advance_clock(3_600 * S)).fired == 1
        [message] = await visible(broker, "deep")
        assert broker.topics.queue(message.queue_key).queue_id == 3


async def test_files_of_another_broker_are_taken_in_while_this_one_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_by_hand(monkeypatch)
    async with running_broker(tmp_path) as broker:
        due_ms = broker.clock.now_us() // MS + 1_000
        foreign = made("foreign", b"foreign", due_ms=due_ms, topic="elsewhere", queue_id=1)
        misnamed = made("misnamed", b"misnamed", due_ms=due_ms + 1, number=8)
        foreign.put(tmp_path / "delay")
        misnamed.put(tmp_path / "delay", f"{foreign.entry.second}/copy of a file")
        await files_of(broker).turn()
        assert await listed(broker) == ["foreign", "misnamed"]
        assert broker.timed.state().disk_bytes == 2 * 4_096
        assert (await broker.advance_clock(1 * S)).fired == 1
        [message] = await visible(broker, "elsewhere")
        assert (message.store_us, message.unique_key) == (due_ms * MS, "foreign")
        assert (await broker.advance_clock(1 * MS)).fired == 1
        await files_of(broker).turn()
        await no_removal_left(broker)
        await files_of(broker).turn()
        assert (names_below(tmp_path), broker.timed.state().repeats) == ([], 0)


@pytest.mark.parametrize("place", [None, "7/by-hand"])
async def test_a_number_above_all_others_leaves_room_for_those_of_this_broker(
    tmp_path: Path, place: str | None
) -> None:
    async with running_broker(tmp_path) as broker:
        due_ms = broker.clock.now_us() // MS + 1_000
    made("largest", b"largest", due_ms=due_ms, number=(1 << 63) - 1).put(tmp_path / "delay", place)
    async with running_broker(tmp_path) as broker:
        for body in ("a", "b"):
            await send_in(broker, 2_000, body)
        assert (await broker.advance_clock(2 * S)).fired == 3
        assert await in_order_of_delivery(broker) == ["largest", "a", "b"]
        assert broker.pending.count == 0


IMPOSSIBLE: list[dict[str, Any]] = [
    {"born_us": 1 << 63},
    {"flag": 10**30},
    {"reconsume_times": -(1 << 63) - 1},
    {"queue_id": 1 << 20},
    {"topic": "no topic's name"},
    {"topic": "%HALF%orders"},
    {"store_host": "nowhere"},
    {"properties": {"a": "\x01"}},
    {"body": b""},
]


@pytest.mark.parametrize("changed", IMPOSSIBLE)
async def test_a_file_that_is_right_by_its_checksum_but_cannot_be_delivered_is_put_aside(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    async with running_api(data=str(tmp_path)) as api:
        now_ms = api.emulator.broker.clock.now_us() // MS
    made(due_ms=now_ms + 1_000, number=now_ms, **changed).put(tmp_path / "delay")
    async with running_api(data=str(tmp_path)) as api:
        await api.send(body="other", delay_ms=1_000)
        listed = (await api.ok("GET", "/v1/delayed"))["messages"]
        assert [one["body"] for one in listed] == ["other"]
        assert (await api.ok("POST", "/v1/clock/next"))["fired"] == 1
        assert [one["body"] for one in await api.receive()] == ["other"]
        state = api.emulator.broker.timed.state()
        assert (state.pending, state.quarantined, state.put_aside) == (0, 1, {"header": 1})


# After a commit of a half message


async def test_a_committed_half_message_is_listed_and_cancelled_by_the_id_of_the_half() -> None:
    async with running_broker() as broker:
        half = await broker.popped_halves.prepare(Message(TOPIC, b"half", {TIMER_DELAY_MS: "60000"}), 20 * S)
        await send(broker, "level", level=18)
        await send_in(broker, 60_000, "later")
        await broker.popped_halves.commit(TOPIC, [half.handle])
        pages, after = list[str](), -1
        while page := await broker.pending.list(after=after, limit=1):
            pages += bodies(one.message for one in page)
            after = page[0].message.commit_offset
        assert pages == await listed(broker) == ["half", "level", "later"]
        first = (await broker.pending.list())[0].message
        assert first.commit_offset == half.stored.commit_offset
        half_id = (await broker.lives.life(half.stored.unique_key)).records[0]
        assert half_id == half.stored
        done = await broker.pending.cancel(f"{'7F000001'}{10911:08X}{first.commit_offset:016X}")
        assert (done.message, broker.pending.count) == (first, 2)


async def test_one_who_commits_again_while_the_file_is_being_saved_is_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = DelayDirectory.write, list[Entry]()
    begun, hold = threading.Event(), threading.Event()

    def write_slowly(directory: DelayDirectory, entry: Entry, content: bytes) -> None:
        written.append(entry)
        begun.set()
        assert hold.wait(30)
        write(directory, entry, content)

    async with running_broker(tmp_path) as broker:
        half = await broker.popped_halves.prepare(Message(TOPIC, b"half", {TIMER_DELAY_MS: "1"}), 20 * S)
        await broker.advance_clock(10 * MS)  # it is overdue, so each commit keeps it for another instant
        monkeypatch.setattr(DelayDirectory, "write", write_slowly)
        gone = asyncio.create_task(broker.popped_halves.commit(TOPIC, [half.handle]))
        assert await asyncio.to_thread(begun.wait, 30)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        assert (await broker.popped_halves.commit(TOPIC, [half.handle])).done == []
        hold.set()
        async with asyncio.timeout(30):
            while not broker.transactions.committed:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await broker.advance_clock(1 * S)
        assert (len(written), broker.pending.count) == (1, 0)
        assert await in_order_of_delivery(broker) == ["half"]


async def test_a_message_that_is_there_under_two_due_times_is_delivered_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        now_ms = broker.clock.now_us() // MS
    for delay_ms in (1_000, 1_001):
        made(due_ms=now_ms + delay_ms).put(tmp_path / "delay")
    async with running_broker(tmp_path) as broker:
        await send_in(broker, 1_001, "other")
        assert (await broker.advance_clock(2 * S)).fired == 2
        assert await in_order_of_delivery(broker) == ["hello", "other"]
        assert (broker.pending.count, broker.timed.state().repeats) == (0, 1)


@pytest.mark.parametrize("is_all", [True, False])
async def test_a_message_that_is_there_under_two_due_times_can_be_reset(tmp_path: Path, is_all: bool) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker)
        now_ms = broker.clock.now_us() // MS
    for delay_ms in (1_000, 1_001):
        made(due_ms=now_ms + delay_ms).put(tmp_path / "delay")
    async with running_broker(tmp_path) as broker:
        await (broker.reset.all() if is_all else broker.reset.topic(TOPIC))
        assert broker.pending.count == 0
        assert (await broker.advance_clock(2 * S)).fired == 0
