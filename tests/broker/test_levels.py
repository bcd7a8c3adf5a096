"""Delay levels in manual time: deliveries are on time and in order, and records equal upstream's."""

import logging
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.errors import InvalidArgumentError
from mocketmq.message.message import Message
from mocketmq.message.names import SCHEDULE_TOPIC
from mocketmq.message.properties import DELAY, REAL_QID, REAL_TOPIC, decode_properties, java_hash
from mocketmq.schedule.level_queues import READ_AHEAD
from mocketmq.store.messages import FEW_BYTES
from tests.support.brokers import DELAYS_US, TOPIC, S, bodies, receive, running_broker, send, visible

LEVELS = range(1, 19)


@pytest.mark.parametrize(("level", "delay_us"), [*zip(LEVELS, DELAYS_US, strict=True)])
async def test_message_is_visible_at_its_due_microsecond(level: int, delay_us: int) -> None:
    async with running_broker() as broker:
        sent = await send(broker, level=level)
        assert sent.stored.due_us == sent.stored.store_us + delay_us
        assert (await broker.mover.advance(delay_us - 1)).fired == 0
        assert await visible(broker) == []
        assert (await broker.mover.advance(1)).fired == 1
        [delivered] = await visible(broker)
        assert delivered.store_us == sent.stored.due_us == broker.clock.now_us()


async def test_one_move_delivers_all_levels_in_order_of_due_time() -> None:
    async with running_broker() as broker:
        for round_ in "ab":
            for level in reversed(LEVELS):
                await send(broker, f"{level}{round_}", level=level)
            await broker.mover.advance(250_000)
        start_us = broker.clock.now_us() - 500_000
        move = await broker.mover.advance(7200 * S)
        assert (move.fired, move.next_due_us) == (36, None)
        found = await visible(broker)
        assert bodies(found) == [f"{level}{round_}" for level in LEVELS for round_ in "ab"]
        assert [m.store_us - start_us for m in found] == [
            delay_us + late_us for delay_us in DELAYS_US for late_us in (0, 250_000)
        ]


async def test_messages_due_at_one_instant_arrive_in_the_order_sent() -> None:
    async with running_broker(levels="3s 2s 1s") as broker:
        for body in ("first", "second", "third"):
            await send(broker, body, level=("first", "second", "third").index(body) + 1)
            await broker.mover.advance(1 * S)
        assert bodies(await receive(broker)) == ["first", "second", "third"]
        assert {m.store_us for m in await visible(broker)} == {broker.clock.now_us()}


async def test_two_levels_with_the_same_delay_are_delivered_in_the_order_sent() -> None:
    async with running_broker(levels="1s 1s") as broker:
        levels = "11212221"
        await broker.sender.send_batch(
            [Message(TOPIC, b"%d" % n, {DELAY: level}, 0) for n, level in enumerate(levels)]
        )
        await broker.mover.advance(1 * S)
        assert bodies(await visible(broker)) == [str(n) for n in range(len(levels))]


async def test_a_transaction_of_large_messages_is_bounded() -> None:
    async with running_broker() as broker:
        for _ in range(24):
            await send(broker, "x" * (1 << 20), level=1)
        commits = broker.store.writer.commits
        assert (await broker.mover.advance(1 * S)).fired == 24
        assert broker.store.writer.commits == commits + 3  # one for the clock


async def test_thousands_on_one_level_are_delivered_once_in_order() -> None:
    async with running_broker() as broker:
        messages = [Message(TOPIC, b"%d" % n, {DELAY: "1"}, 0) for n in range(3_000)]
        for first in range(0, 3_000, 1_000):
            await broker.sender.send_batch(messages[first : first + 1_000])
        assert (await broker.mover.advance(1 * S)).fired == 3_000
        assert bodies(await visible(broker)) == [str(n) for n in range(3_000)]


def note_quick_reads(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The result gets, for each read-ahead, whether the event loop may run it."""
    database, quick = broker.store.database, list[bool]()
    rows = database.rows

    async def noted(sql: str, parameters: Sequence[object] = (), *, are_few: bool = False) -> list[Any]:
        if "json_group_array" in sql:
            quick.append(are_few)
        return await rows(sql, parameters, are_few=are_few)

    monkeypatch.setattr(database, "rows", noted)
    return quick


@pytest.mark.parametrize(
    ("size", "is_quick"), [(FEW_BYTES // READ_AHEAD, True), (FEW_BYTES // READ_AHEAD + 1, False)]
)
async def test_the_event_loop_reads_ahead_only_messages_with_small_bodies(
    monkeypatch: pytest.MonkeyPatch, size: int, *, is_quick: bool
) -> None:
    """SQLite reads all pages of a body to get at the due time behind it."""
    async with running_broker() as broker:
        await broker.sender.send_batch(
            [Message(TOPIC, bytes(size), {DELAY: "1"}) for _ in range(READ_AHEAD + 1)]
        )
        quick = note_quick_reads(broker, monkeypatch)
        await broker.mover.advance(1 * S)
        assert quick == [is_quick]
        quick.clear()
        await send(broker, level=1)
        await broker.mover.advance(1 * S)
        assert quick == [], "a message that is not behind others needs no reading"


@pytest.mark.parametrize(("cancelled", "is_quick"), [(READ_AHEAD, True), (READ_AHEAD + 1, False)])
async def test_the_event_loop_does_not_read_past_many_cancelled_messages(
    monkeypatch: pytest.MonkeyPatch, cancelled: int, *, is_quick: bool
) -> None:
    async with running_broker() as broker:
        await broker.sender.send_batch([Message(TOPIC, b"x", {DELAY: "1"}) for _ in range(cancelled)])
        await broker.sender.send_batch([Message("others", b"x", {DELAY: "1"}) for _ in range(2)])
        quick = note_quick_reads(broker, monkeypatch)
        await broker.reset.delete_topic(TOPIC)
        assert (await broker.mover.advance(S)).fired == 2
        assert quick == [is_quick]


async def test_the_parked_record_in_the_level_queue_names_its_target() -> None:
    async with running_broker() as broker:
        sent = await send(broker, queue=2, level=3, tag="vip", KEYS="k1 k2")
        level_queue = broker.registry.topics.queue(sent.stored.queue_key)
        assert (level_queue.topic, level_queue.queue_id, sent.stored.queue_offset) == (SCHEDULE_TOPIC, 2, 0)
        assert (sent.queue.topic, sent.queue.queue_id, sent.queue.next_offset) == (TOPIC, 2, 0)
        properties = decode_properties(sent.stored.properties)
        assert {REAL_TOPIC: TOPIC, REAL_QID: "2", DELAY: "3"}.items() <= properties.items()
        assert (await broker.pull.browse(SCHEDULE_TOPIC, 2, 0, 10)).messages == [sent.stored]


async def test_delivered_record_copies_the_parked_one() -> None:
    async with running_broker() as broker:
        message = Message(
            TOPIC, b"\0\xff", {"TAGS": "vip", "own": "1", DELAY: "3"}, 2, 7, 8, 1_234_567, "10.0.0.7:4711", 5
        )
        parked = (await broker.sender.send(message)).stored
        await broker.mover.advance(10 * S)
        [delivered] = await visible(broker)
        assert delivered == parked._replace(
            log_offset=parked.log_offset + 1,
            queue_key=broker.registry.topics.get(TOPIC).queues[2].key,
            queue_offset=0,
            store_us=parked.store_us + 10 * S,
            due_us=None,
            real_queue_key=None,
            parked_offset=parked.log_offset,
            kind="delivered",
        )
        assert (delivered.tag_hash, delivered.born_us) == (java_hash("vip"), 1_234_567)


async def test_a_tag_filter_still_matches_after_the_delay() -> None:
    async with running_broker() as broker:
        await send(broker, "yes", level=1, tag="A")
        await send(broker, "no", level=1, tag="B")
        await broker.mover.advance(1 * S)
        assert bodies(await receive(broker, tags="A")) == ["yes"]


async def test_a_level_above_the_highest_is_clamped_and_reported() -> None:
    async with running_broker() as broker:
        sent = await send(broker, level=19)
        assert sent.level == 18
        await broker.mover.advance(7200 * S)
        [delivered] = await visible(broker)
        assert decode_properties(delivered.properties)[DELAY] == "18"


@pytest.mark.parametrize("level", ["0", "-1"])
async def test_levels_below_one_are_no_delay(level: str) -> None:
    async with running_broker() as broker:
        sent = await send(broker, level=level)
        assert (sent.level, sent.stored.due_us) == (0, None)
        [stored] = await visible(broker)
        assert decode_properties(stored.properties)[DELAY] == level


async def test_non_numeric_level_is_refused_and_not_stored() -> None:
    async with running_broker() as broker:
        before = broker.store.writer.next_log_offset
        with pytest.raises(InvalidArgumentError, match=r'string: "abc"; property DELAY .*1 to 18') as refused:
            await send(broker, level="abc")
        assert refused.value.field == "delay_level"
        assert broker.store.writer.next_log_offset == before


async def test_batch_is_parked_or_refused_whole() -> None:
    async with running_broker() as broker:
        good, bad = Message(TOPIC, b"good", {DELAY: "1"}), Message(TOPIC, b"bad", {DELAY: "x"})
        with pytest.raises(InvalidArgumentError):
            await broker.sender.send_batch([good, bad])
        assert broker.pending.count == 0
        await broker.sender.send_batch([good, Message(TOPIC, b"at once")])
        assert (broker.pending.count, bodies(await visible(broker))) == (1, ["at once"])


# Changes of the level table while messages wait


@pytest.mark.parametrize("changed", ["5s", "20s"])
async def test_changed_level_table_keeps_pending_due_times(
    tmp_path: Path, changed: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(tmp_path, levels="10s") as broker:
        due_us = (await send(broker, level=1)).stored.due_us
    with caplog.at_level(logging.WARNING):
        async with running_broker(tmp_path, levels=changed) as broker:
            assert (await broker.mover.move_to_next()).now_us == due_us
            assert len(await visible(broker)) == 1
    assert "level 1 was changed with 1 messages pending" in caplog.text


async def test_a_shortened_level_stays_first_in_first_out(tmp_path: Path) -> None:
    async with running_broker(tmp_path, levels="10s") as broker:
        await send(broker, "long", level=1)
    async with running_broker(tmp_path, levels="1s") as broker:
        await send(broker, "short", level=1)
        assert (await broker.mover.advance(10 * S - 1)).fired == 0
        assert (await broker.mover.advance(1)).fired == 2
        assert bodies(await visible(broker)) == ["long", "short"]


async def test_removed_level_still_delivers_its_messages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(tmp_path, levels=" ".join(["1s"] * 19 + ["1h"])) as broker:
        due_us = (await send(broker, level=20)).stored.due_us
    async with running_broker(tmp_path) as broker:
        assert [state.level for state in broker.levels.states()] == [*LEVELS, 20]
        assert (await broker.mover.move_to_next()).now_us == due_us
        assert [state.level for state in broker.levels.states()] == [*LEVELS]
    assert "level 20 was changed with 1 messages pending" in caplog.text


async def test_unchanged_level_table_logs_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker, level=1)
        await broker.mover.advance(1 * S)
        await send(broker, level=1)
    async with running_broker(tmp_path):
        assert caplog.text == ""


# The level table as the broker shows it


async def test_the_level_table_shows_pending_messages_and_delay_offsets() -> None:
    async with running_broker() as broker:
        for level in (1, 1, 3):
            await send(broker, level=level)
        start_us = broker.clock.now_us()
        await broker.mover.advance(1 * S)
        await send(broker, level=1)
        states = {state.level: state for state in broker.levels.states()}
        assert [state.delay_us for state in states.values()] == list(DELAYS_US)
        assert states[1][2:] == (1, 2, 3, start_us + 2 * S, None)
        assert states[3][2:] == (1, 0, 1, start_us + 10 * S, None)
        assert states[2][2:] == (0, 0, 0, None, None)


async def test_moving_from_due_time_to_due_time_stops_at_each() -> None:
    async with running_broker() as broker:
        for level in LEVELS:
            await send(broker, level=level)
        moves = [await broker.mover.move_to_next() for _ in LEVELS]
        assert [move.fired for move in moves] == [1] * 18
        steps_us = [move.now_us - move.from_us for move in moves]
        assert list(accumulate(steps_us)) == list(DELAYS_US)
