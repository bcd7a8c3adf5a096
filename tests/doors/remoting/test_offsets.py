"""Offsets by 14, 15 and 29 to 32, and one group that uses both protocols."""

from typing import Any

import pytest

from mocketmq.clock import wall_us
from mocketmq.message.message import Message
from mocketmq.rocketmq_versions import V4_9_8, V5_0_0
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
    """Send ``count`` messages to queue 0."""
    for n in range(count):
        await send(remoting.broker, str(n), queue=0)


async def asked(remoting: Remoting, code: int, queue_id: int = 0, topic: str = TOPIC, **more: object) -> int:
    """Ask about a queue, and return the number in the answer."""
    answer = await remoting.client.ok(code, place(queue_id, topic, None, **more))
    [value] = answer.ext.values()
    return int(value)


# Start and progress of groups


async def test_new_group_starts_at_the_beginning_of_a_young_queue() -> None:
    async with running_remoting() as remoting:
        await fill(remoting)
        assert await committed(remoting.client) == 0
        assert await committed(remoting.client, 3) == 0
        assert await committed(remoting.client, setZeroIfNotFound="true") == 0
        assert await committed(remoting.client, setZeroIfNotFound="false") is None
        # Queries create neither groups nor topics.
        assert await committed(remoting.client, topic="nowhere") == 0
        assert await committed(remoting.client, 4) == 0
        assert list(remoting.broker.registry.groups) == []
        assert remoting.broker.registry.topics.find_topic("nowhere") is None


async def test_queue_trimmed_by_retention_is_no_longer_young() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, 3)
        await commit(remoting.client, 1)
        remoting.broker.registry.topics.queue_of(TOPIC, 0).min_offset = 2
        assert await committed(remoting.client, consumerGroup="late") is None
        # Removed messages cannot be read again, and a client that tries waits for 10 s.
        assert await committed(remoting.client) == 2


async def test_reset_queue_is_young_again(tmp_path: Any) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        await fill(remoting, 3)
        await remoting.broker.reset.all()
        await fill(remoting, 1)
        assert await committed(remoting.client) == 3
    async with running_remoting(data=str(tmp_path)) as remoting:
        assert await committed(remoting.client) == 3
        assert await asked(remoting, MIN_OFFSET) == 3
        assert await asked(remoting, MAX_OFFSET) == 4


async def test_committed_offsets_survive_a_restart(tmp_path: Any) -> None:
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
        assert remoting.broker.consuming_groups.get(GROUP).queues.keys() == {
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
async def test_meaningless_offsets_are_accepted_and_ignored(given: dict[str, Any]) -> None:
    async with running_remoting() as remoting:
        await fill(remoting)
        await commit(remoting.client, 3)
        answer = await remoting.client.ok(UPDATE_OFFSET, place(**given))
        assert (answer.ext, answer.remark) == ({}, None)
        assert await committed(remoting.client) == 3
        assert [group.name for group in remoting.broker.registry.groups] == [GROUP]
        assert remoting.broker.registry.topics.find_topic("nowhere") is None


async def test_uncreated_groups_commit_nothing() -> None:
    async with running_remoting(auto_create_groups=False) as remoting:
        await fill(remoting)
        await commit(remoting.client, 3)
        assert list(remoting.broker.registry.groups) == []


async def test_oneway_commit_takes_effect() -> None:
    async with running_remoting() as remoting:
        await fill(remoting)
        remoting.client.oneway(UPDATE_OFFSET, place(commitOffset=3))
        await remoting.client.ok(MAX_OFFSET, place(group=None))
        await remoting.broker.store.writer.commit(lambda _: None)
        assert await committed(remoting.client) == 3


async def test_missing_mandatory_field_is_named() -> None:
    async with running_remoting() as remoting:
        answer = await remoting.client.call(UPDATE_OFFSET, place())
        assert (answer.code, answer.remark) == (1, "the custom field <commitOffset> is null")


# Queues


async def test_missing_queues_have_no_offsets() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, 1)
        for topic, queue_id in (("nowhere", 0), (TOPIC, 4), (TOPIC, -1)):
            assert await asked(remoting, MAX_OFFSET, queue_id, topic) == 0
            assert await asked(remoting, MIN_OFFSET, queue_id, topic) == 0
            assert await asked(remoting, SEARCH_OFFSET, queue_id, topic, timestamp=0) == 0
            assert await asked(remoting, EARLIEST, queue_id, topic) == -1
        assert remoting.broker.registry.topics.find_topic("nowhere") is None


async def test_the_ends_of_a_queue() -> None:
    async with running_remoting() as remoting:
        broker = remoting.broker
        await fill(remoting, 2)
        await broker.reset.topic(TOPIC)
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
    """Fill a queue at these times, and return its start on the client's clock in milliseconds."""
    broker = remoting.broker
    await fill(remoting, 2)
    await broker.reset.all()  # offsets then begin at 2
    wall_ms = wall_us() // 1_000
    start_us = broker.clock.from_wall(wall_ms * 1_000)
    await broker.mover.move_to(start_us + 1 * S)
    for after_ms in AFTER_MS:
        await broker.mover.move_to(start_us + 1 * S + after_ms * 1_000)
        await send(broker, queue=0)
    return start_us // 1_000 + 1_000


@pytest.mark.interpreted
@pytest.mark.parametrize("server_version", [V4_9_8, V5_0_0])
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
    after_ms: int, nearest: int, lower: int, upper: int, server_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_remoting(server_version=server_version) as remoting:
        start_ms = await timed(remoting)
        monkeypatch.setattr(remoting.broker.clock, "from_wall", lambda instant_us: instant_us)
        wanted = {
            None: nearest if server_version == V4_9_8 else lower,
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


@pytest.mark.parametrize(("timestamp", "offset"), [(-1, 2), (0, 2), (-(1 << 63), 2), ((1 << 63) - 1, 8)])
async def test_extreme_timestamps_find_the_ends(timestamp: int, offset: int) -> None:
    async with running_remoting() as remoting:
        await timed(remoting)
        assert await asked(remoting, SEARCH_OFFSET, timestamp=timestamp) == offset


async def test_search_timestamps_are_wall_clock_times() -> None:
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
        await remoting.broker.reset.all()
        for side in ("", "lower", "upper"):
            assert await asked(remoting, SEARCH_OFFSET, timestamp=5, boundaryType=side or None) == 2


# One group, two protocols


async def test_a_pull_consumer_continues_where_receipts_ended() -> None:
    async with running_remoting() as remoting:
        await fill(remoting)
        taken = await receive(remoting.broker, 6)
        assert await committed(remoting.client) == 0
        await acknowledge(remoting.broker, taken[:2])
        assert await committed(remoting.client) == 2
        await acknowledge(remoting.broker, taken[3:])
        assert await committed(remoting.client) == 2  # the third is still in flight
        await acknowledge(remoting.broker, [taken[2]])
        assert await committed(remoting.client) == 6


async def test_a_receiver_continues_where_a_pull_consumer_ended() -> None:
    async with running_remoting() as remoting:
        await fill(remoting)
        await commit(remoting.client, 4)
        assert bodies(await receive(remoting.broker, 2)) == ["4", "5"]
        await pull(remoting.client, 9, SUBSCRIPTION | COMMIT, commitOffset=9)
        assert bodies(await receive(remoting.broker)) == ["9"]


async def test_messages_below_a_committed_offset_are_not_received() -> None:
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


async def test_lagging_commit_does_not_reopen_receipts() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        await fill(remoting)
        await join(client)
        assert await committed(client) == 0  # the group's start
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


async def test_rewinding_one_consumer_rewinds_its_group() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        await fill(remoting)
        await commit(client, 5)
        taken = await receive(remoting.broker, 3)
        await commit(client, 2)
        assert await committed(client) == 2
        assert len((await acknowledge(remoting.broker, taken)).failed) == 3
        assert bodies(await receive(remoting.broker, 2)) == ["2", "3"]


async def test_offset_beyond_an_emptied_broker_hides_no_message() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        await fill(remoting)
        await commit(client, 5)
        await remoting.broker.reset.all()
        await commit(client, 6)
        assert await committed(client) == 10
        await fill(remoting, 1)
        assert bodies(await receive(remoting.broker)) == ["0"]


async def test_an_offset_committed_after_a_reset_is_stored_and_acknowledges_nothing(tmp_path: Any) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        client = remoting.client
        await send(remoting.broker, queue=0, level=1)
        await remoting.broker.mover.advance(1 * S)
        await pull(client)
        await remoting.broker.reset.topic(TOPIC)
        await commit(client, 1)
        await remoting.broker.store.writer.commit(lambda _: None)
        assert [row["acked_us"] for row in rows(tmp_path, "SELECT * FROM deliveries")] == [None]
        await remoting.broker.reset.all()
        assert rows(tmp_path, "SELECT * FROM progress") == []
        await commit(client, 1)
        assert [row["next_offset"] for row in rows(tmp_path, "SELECT * FROM progress")] == [1]


async def test_ledger_notes_acknowledgements_of_every_door(tmp_path: Any) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        broker, client = remoting.broker, remoting.client
        for n in range(4):
            await send(broker, str(n), queue=0, level=1)
        await broker.mover.advance(1 * S)
        taken = await receive(broker, 2)
        await pull(client, 1, maxMsgNums=2)
        await broker.mover.advance(1 * S)
        await acknowledge(broker, taken[:1])
        await commit(client, 2)  # skips messages in flight
        await broker.mover.advance(1 * S)
        await commit(client, 3)
        await broker.mover.advance(1 * S)
        await commit(client, 4)  # skips messages that were never pulled
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
