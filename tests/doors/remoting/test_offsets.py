"""Offsets by 14, 15 and 29 to 32, and one group that comes by both doors."""

from typing import Any

import pytest

from mocketmq.clock import wall_us
from mocketmq.message.message import Message
from tests.doors.remoting.consuming import (
    COMMIT,
    EARLIEST,
    MAX_OFFSET,
    MIN_OFFSET,
    SEARCH_OFFSET,
    SUBSCRIPTION,
    UPDATE_OFFSET,
    commit,
    committed,
    join,
    place,
    pull,
)
from tests.support.brokers import GROUP, TOPIC, S, acknowledge, bodies, index_keys, receive, rows, send
from tests.support.remoting import Remoting, running_remoting

H = 3600 * S


async def fill(remoting: Remoting, count: int = 10) -> None:
    """So many messages in queue 0."""
    for n in range(count):
        await send(remoting.broker, str(n), queue=0)


async def asked(remoting: Remoting, code: int, queue_id: int = 0, topic: str = TOPIC, **more: object) -> int:
    """What is answered about a queue."""
    answer = await remoting.client.ok(code, place(queue_id, topic, None, **more))
    [value] = answer.ext.values()
    return int(value)


# Where groups begin, and how far they come


async def test_a_group_that_never_consumed_begins_at_the_start_of_a_young_queue() -> None:
    async with running_remoting() as remoting:
        await fill(remoting)
        assert await committed(remoting.client) == 0
        assert await committed(remoting.client, 3) == 0
        assert await committed(remoting.client, setZeroIfNotFound="true") == 0
        assert await committed(remoting.client, setZeroIfNotFound="false") is None
        # Asking makes neither groups nor topics.
        assert await committed(remoting.client, topic="nowhere") == 0
        assert await committed(remoting.client, 4) == 0
        assert list(remoting.broker.registry.groups) == []
        assert remoting.broker.registry.topics.find("nowhere") is None


async def test_a_queue_that_lost_messages_to_retention_is_young_no_longer() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, 3)
        await commit(remoting.client, 1)
        remoting.broker.registry.topics.queue_of(TOPIC, 0).min_offset = 2
        assert await committed(remoting.client, consumerGroup="late") is None
        # What is gone cannot be read again, and a client that tries waits for 10 s.
        assert await committed(remoting.client) == 2


async def test_a_queue_that_was_reset_is_young_again(tmp_path: Any) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        await fill(remoting, 3)
        await remoting.broker.removal.reset.all()
        await fill(remoting, 1)
        assert await committed(remoting.client) == 3
    async with running_remoting(data=str(tmp_path)) as remoting:
        assert await committed(remoting.client) == 3
        assert await asked(remoting, MIN_OFFSET) == 3
        assert await asked(remoting, MAX_OFFSET) == 4


async def test_what_is_committed_is_there_after_a_restart(tmp_path: Any) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        await fill(remoting)
        await commit(remoting.client, 7)
        assert await committed(remoting.client) == 7
        assert [row["next_offset"] for row in rows(tmp_path, "SELECT * FROM progress")] == [7]
        await commit(remoting.client, 4)
        assert await committed(remoting.client) == 4
    async with running_remoting(data=str(tmp_path)) as remoting:
        assert await committed(remoting.client) == 4
        await index_keys(remoting.broker)
        before = remoting.broker.store.writer.commits
        await commit(remoting.client, 4)
        assert remoting.broker.store.writer.commits == before
        assert remoting.broker.consuming.groups.get(GROUP).queues.keys() == {
            remoting.broker.registry.topics.queue_of(TOPIC, 0)
        }


@pytest.mark.parametrize(
    "given",
    [
        {"commitOffset": 11},
        {"commitOffset": -1},
        {"commitOffset": (1 << 63) - 1},
        {"commitOffset": 5, "topic": "nowhere"},
        {"commitOffset": 5, "queue_id": 4},
        {"commitOffset": 5, "queue_id": -1},
        {"commitOffset": 5, "group": "no such/name"},
        {"commitOffset": 5, "group": "CID_RMQ_SYS_HALF"},
    ],
)
async def test_offsets_that_mean_nothing_are_accepted_and_left_alone(given: dict[str, Any]) -> None:
    async with running_remoting() as remoting:
        await fill(remoting)
        await commit(remoting.client, 3)
        answer = await remoting.client.ok(UPDATE_OFFSET, place(**given))
        assert (answer.ext, answer.remark) == ({}, None)
        assert await committed(remoting.client) == 3
        assert [group.name for group in remoting.broker.registry.groups] == [GROUP]
        assert remoting.broker.registry.topics.find("nowhere") is None


async def test_groups_that_are_not_made_on_first_use_commit_nothing() -> None:
    async with running_remoting(auto_create_groups=False) as remoting:
        await fill(remoting)
        await commit(remoting.client, 3)
        assert list(remoting.broker.registry.groups) == []


async def test_a_commit_by_oneway_counts() -> None:
    async with running_remoting() as remoting:
        await fill(remoting)
        remoting.client.oneway(UPDATE_OFFSET, place(commitOffset=3))
        await remoting.client.ok(MAX_OFFSET, place(group=None))
        await remoting.broker.store.writer.commit(lambda _: None)
        assert await committed(remoting.client) == 3


async def test_a_mandatory_field_that_is_missing_is_named() -> None:
    async with running_remoting() as remoting:
        answer = await remoting.client.call(UPDATE_OFFSET, place())
        assert (answer.code, answer.remark) == (1, "the custom field <commitOffset> is null")


# Queues


async def test_what_does_not_exist_has_nothing() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, 1)
        for topic, queue_id in (("nowhere", 0), (TOPIC, 4), (TOPIC, -1)):
            assert await asked(remoting, MAX_OFFSET, queue_id, topic) == 0
            assert await asked(remoting, MIN_OFFSET, queue_id, topic) == 0
            assert await asked(remoting, SEARCH_OFFSET, queue_id, topic, timestamp=0) == 0
            assert await asked(remoting, EARLIEST, queue_id, topic) == -1
        assert remoting.broker.registry.topics.find("nowhere") is None


async def test_the_ends_of_a_queue() -> None:
    async with running_remoting() as remoting:
        broker = remoting.broker
        await fill(remoting, 2)
        await broker.removal.reset.topic(TOPIC)
        assert await asked(remoting, EARLIEST) == -1
        await broker.mover.advance(5 * S)
        stored_ms = broker.clock.now_us() // 1_000
        await fill(remoting, 3)
        await broker.mover.advance(5 * S)
        assert [await asked(remoting, code) for code in (MIN_OFFSET, MAX_OFFSET, EARLIEST)] == [
            2,
            5,
            stored_ms,
        ]


# Times. Messages are stored at 0, 0, 10, 30, 30 and 60 ms after a start.

AFTER_MS = (0, 0, 10, 30, 30, 60)


async def timed(remoting: Remoting) -> int:
    """Such a queue, and the milliseconds of the client's clock at which it began."""
    broker = remoting.broker
    await fill(remoting, 2)
    await broker.removal.reset.all()  # its offsets begin with 2
    wall_ms = wall_us() // 1_000
    start_us = broker.clock.from_wall(wall_ms * 1_000)
    await broker.mover.move_to(start_us + 1 * S)
    for after_ms in AFTER_MS:
        await broker.mover.move_to(start_us + 1 * S + after_ms * 1_000)
        await send(broker, queue=0)
    return start_us // 1_000 + 1_000


@pytest.mark.parametrize(
    ("after_ms", "nearest", "lower", "upper"),
    [
        (-50, 2, 2, 2),
        (-1, 2, 2, 2),
        (0, 2, 2, 3),
        (1, 3, 4, 3),
        (5, 3, 4, 3),
        (6, 4, 4, 3),
        (10, 4, 4, 4),
        (20, 4, 5, 4),
        (21, 5, 5, 4),
        (30, 5, 5, 6),
        (45, 6, 7, 6),
        (46, 7, 7, 6),
        (60, 7, 7, 7),
        (61, 7, 8, 7),
        (900, 7, 8, 7),
    ],
)
async def test_an_offset_is_found_by_time(
    after_ms: int, nearest: int, lower: int, upper: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_remoting() as remoting:
        start_ms = await timed(remoting)
        monkeypatch.setattr(remoting.broker.clock, "from_wall", lambda instant_us: instant_us)
        wanted = {
            None: nearest,
            "lower": lower,
            "LOWER": lower,
            "upper": upper,
            "UPPER": upper,
            "neither": lower,
        }
        for boundary, offset in wanted.items():
            more: dict[str, Any] = {} if boundary is None else {"boundaryType": boundary}
            assert await asked(remoting, SEARCH_OFFSET, timestamp=start_ms + after_ms, **more) == offset, (
                boundary
            )


@pytest.mark.parametrize(("timestamp", "offset"), [(-1, 2), (0, 2), (-(1 << 63), 2), ((1 << 63) - 1, 7)])
async def test_times_beyond_all_reason_are_the_ends(timestamp: int, offset: int) -> None:
    async with running_remoting() as remoting:
        await timed(remoting)
        assert await asked(remoting, SEARCH_OFFSET, timestamp=timestamp) == offset


async def test_a_client_knows_the_wall_clock_only() -> None:
    async with running_remoting(clock="real") as remoting:
        broker = remoting.broker
        await fill(remoting, 1)
        await broker.mover.advance(2 * H)
        await fill(remoting, 1)
        await broker.mover.advance(2 * H)
        an_hour_ago_ms = (wall_us() - 1 * H) // 1_000
        assert await asked(remoting, SEARCH_OFFSET, timestamp=an_hour_ago_ms, boundaryType="lower") == 2
        three_hours_ago_ms = (wall_us() - 3 * H) // 1_000
        assert await asked(remoting, SEARCH_OFFSET, timestamp=three_hours_ago_ms, boundaryType="lower") == 1


async def test_an_empty_queue_has_no_times() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, 2)
        assert await asked(remoting, SEARCH_OFFSET, 1, timestamp=5) == 0
        await remoting.broker.removal.reset.all()
        for side in ("", "lower", "upper"):
            assert await asked(remoting, SEARCH_OFFSET, timestamp=5, boundaryType=side or None) == 2


# One group, two doors


async def test_a_pulling_consumer_goes_on_where_receipts_have_come_to() -> None:
    async with running_remoting() as remoting:
        await fill(remoting)
        taken = await receive(remoting.broker, 6)
        assert await committed(remoting.client) == 0
        await acknowledge(remoting.broker, taken[:2])
        assert await committed(remoting.client) == 2
        await acknowledge(remoting.broker, taken[3:])
        assert await committed(remoting.client) == 2  # the third is taken still
        await acknowledge(remoting.broker, [taken[2]])
        assert await committed(remoting.client) == 6


async def test_a_receiver_goes_on_where_a_pulling_consumer_has_come_to() -> None:
    async with running_remoting() as remoting:
        await fill(remoting)
        await commit(remoting.client, 4)
        assert bodies(await receive(remoting.broker, 2)) == ["4", "5"]
        await pull(remoting.client, 9, SUBSCRIPTION | COMMIT, commitOffset=9)
        assert bodies(await receive(remoting.broker)) == ["9"]


async def test_what_a_consumer_passed_is_no_longer_taken() -> None:
    async with running_remoting() as remoting:
        await fill(remoting)
        taken = await receive(remoting.broker, 6)
        await commit(remoting.client, 4)
        assert await committed(remoting.client) == 4
        settled = await acknowledge(remoting.broker, taken)
        assert (len(settled.done), len(settled.failed)) == (2, 4)
        assert await committed(remoting.client) == 6
        await remoting.broker.mover.advance(3600 * S)
        assert bodies(await receive(remoting.broker)) == ["6", "7", "8", "9"]


async def test_a_consumer_that_lags_behind_receipts_undoes_nothing() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        await fill(remoting)
        await join(client)
        assert await committed(client) == 0  # where it begins
        first = await receive(remoting.broker, 8)
        await acknowledge(remoting.broker, first[:6])
        for offset in (0, 2, 2, 4):
            await commit(client, offset)
            await pull(client, 5, SUBSCRIPTION | COMMIT, commitOffset=offset)
            assert await committed(client) == 6
        assert len((await acknowledge(remoting.broker, first[6:])).done) == 2
        assert await committed(client) == 8
        await commit(client, 9)
        assert bodies(await receive(remoting.broker)) == ["9"]


async def test_a_consumer_that_goes_back_takes_the_group_with_it() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        await fill(remoting)
        await commit(client, 5)
        taken = await receive(remoting.broker, 3)
        await commit(client, 2)
        assert await committed(client) == 2
        assert len((await acknowledge(remoting.broker, taken)).failed) == 3
        assert bodies(await receive(remoting.broker, 2)) == ["2", "3"]


async def test_an_offset_from_before_the_broker_was_emptied_hides_nothing() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        await fill(remoting)
        await commit(client, 5)
        await remoting.broker.removal.reset.all()
        await commit(client, 6)
        assert await committed(client) == 10
        await fill(remoting, 1)
        assert bodies(await receive(remoting.broker)) == ["0"]


async def test_what_was_reset_is_stored_anew_and_acknowledges_nothing(tmp_path: Any) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        client = remoting.client
        await send(remoting.broker, queue=0, level=1)
        await remoting.broker.mover.advance(1 * S)
        await pull(client)
        await remoting.broker.removal.reset.topic(TOPIC)
        await commit(client, 1)
        await remoting.broker.store.writer.commit(lambda _: None)
        assert [row["acked_us"] for row in rows(tmp_path, "SELECT * FROM deliveries")] == [None]
        await remoting.broker.removal.reset.all()
        assert rows(tmp_path, "SELECT * FROM progress") == []
        await commit(client, 1)
        assert [row["next_offset"] for row in rows(tmp_path, "SELECT * FROM progress")] == [1]


async def test_delayed_messages_are_acknowledged_by_either_door(tmp_path: Any) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        broker, client = remoting.broker, remoting.client
        for n in range(4):
            await send(broker, str(n), queue=0, level=1)
        await broker.mover.advance(1 * S)
        taken = await receive(broker, 2)
        await pull(client, 1, maxMsgNums=2)
        await broker.mover.advance(1 * S)
        await acknowledge(broker, taken[:1])
        await commit(client, 2)  # passes what is taken
        await broker.mover.advance(1 * S)
        await commit(client, 3)
        await broker.mover.advance(1 * S)
        await commit(client, 4)  # passes what was never pulled
    found = rows(tmp_path, "SELECT * FROM deliveries ORDER BY queue_offset")
    acked = [row["acked_us"] and (row["acked_us"] - row["delivered_us"]) // S for row in found]
    assert acked == [1, 1, 2, None]


async def test_many_commits_at_once_are_one_transaction() -> None:
    async with running_remoting(topic_queues=64) as remoting:
        client, writer = remoting.client, remoting.broker.store.writer
        await remoting.broker.sender.send_batch([Message(TOPIC, b"x", {}, n) for n in range(64)])
        await commit(client, 1)
        await index_keys(remoting.broker)
        before = writer.commits
        answers = [client.ask(UPDATE_OFFSET, place(n, commitOffset=1)) for n in range(64)]
        for answer in answers:
            await answer
        assert writer.commits - before <= 5
