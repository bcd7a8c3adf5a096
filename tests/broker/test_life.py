"""The life of a message: the kinds of its records, its events, and its state."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.faults.rule import FaultRule
from mocketmq.message.properties import TIMER_DELAY_SEC
from mocketmq.store.database import FILE_NAME
from mocketmq.store.receipt_rows import MOST_ATTEMPTS
from tests.broker.half_messages import commit, pop, prepare, rollback
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
)

TIMED = ["directories", "wheel", "slots", "sorted"]
IN_A_MINUTE: dict[str, Any] = {TIMER_DELAY_SEC: "60"}
KINDS = "SELECT log_offset, kind FROM messages ORDER BY log_offset"


async def life(broker: Broker, unique_key: str) -> tuple[str, list[str]]:
    """Return the state and the events of a message: seconds since the first, kind, seconds of lateness."""
    history = await broker.histories.of(unique_key)
    begin_us = history.life[0].at_us
    return history.state, [
        f"{(event.at_us - begin_us) / S:g} {event.kind}{f' +{event.late_us / S:g}' if event.late_us else ''}"
        for event in history.life
    ]


async def to_a_whole_second(broker: Broker) -> None:
    await broker.mover.advance(S - broker.clock.now_us() % S)


async def delayed(broker: Broker, scheme: str, body: str = "hello") -> str:
    """Send a message due in a minute, by level 5 or by an absolute time, and return its unique key."""
    if scheme == "levels":
        return (await send(broker, body, level=5)).stored.unique_key
    return (await send(broker, body, **IN_A_MINUTE)).stored.unique_key


@pytest.mark.parametrize("scheme", ["levels", *TIMED])
async def test_life_of_a_delayed_message_ending_in_the_dead_letters(scheme: str) -> None:
    async with running_broker(timed_scheme="directories" if scheme == "levels" else scheme) as broker:
        await to_a_whole_second(broker)
        key = await delayed(broker, scheme)
        assert await life(broker, key) == ("pending", ["0 parked", "60 due"])
        await broker.mover.advance(62 * S)
        assert (await life(broker, key))[0] == "delivered"
        await give_back(broker, await receive(broker))
        assert (await life(broker, key))[0] == "pending"
        await broker.mover.advance(10 * S)
        await give_back(broker, await receive(broker), delay_level=-1)
        assert await life(broker, key) == (
            "dead",
            [
                *("0 parked", "60 due", "60 delivered", "62 taken +2", "62 retried"),
                *("72 due", "72 delivered", "72 taken", "72 dead"),
            ],
        )
        keeper = "level 5" if scheme == "levels" else scheme
        parked, *_, retried, _, _, _, dead = (await broker.histories.of(key)).life
        assert parked.text.startswith(f"sent to {TOPIC}, parked ({keeper}) for 1m until ")
        assert retried.text.startswith(f"given back by {GROUP}, parked (level 3) for 10s until ")
        assert dead.text == f"dead at {GROUP}"


@pytest.mark.parametrize("scheme", ["levels", "directories"])
async def test_life_of_forced_and_cancelled_messages(scheme: str) -> None:
    async with running_broker() as broker:
        forced, cancelled = await delayed(broker, scheme), await delayed(broker, scheme)
        await broker.pending.deliver_now(forced)
        await broker.pending.cancel(cancelled)
        assert await life(broker, forced) == ("delivered", ["0 parked", "0 forced"])
        # Nothing of the message remains outside the store, except the record of its end.
        sent = ["0 parked"] if scheme == "levels" else []
        assert await life(broker, cancelled) == ("cancelled", [*sent, "0 cancelled"])


@pytest.mark.parametrize("scheme", ["levels", "directories"])
async def test_message_held_by_a_fault_was_parked_once(scheme: str) -> None:
    async with running_broker() as broker:
        await to_a_whole_second(broker)
        await broker.faults.add_rule(FaultRule(do="deliver-late", by="31s", name="storm", topic=TOPIC))
        key = await delayed(broker, scheme)
        await broker.mover.advance(70 * S)
        state, events = await life(broker, key)
        assert (state, [one for one in events if one != "60 due"]) == ("pending", ["0 parked", "60 fault"])
        await broker.mover.advance(30 * S)
        assert await life(broker, key) == (
            "delivered",
            ["0 parked", "60 due", "60 fault", "91 delivered +31"],
        )
        assert [event.fault for event in (await broker.histories.of(key)).life][2:] == ["storm", "storm"]


async def test_life_of_a_message_taken_twice_and_acknowledged() -> None:
    async with running_broker() as broker:
        key = (await send(broker)).stored.unique_key
        await receive(broker, invisible_us=10 * S)
        assert await life(broker, key) == ("stored", ["0 sent", "0 taken", "10 visible"])
        await broker.mover.advance(12 * S)
        taken = await receive(broker)
        await broker.mover.advance(3 * S)
        await acknowledge(broker, taken)
        assert await life(broker, key) == (
            "stored",
            ["0 sent", "0 taken", "10 expired", "12 taken", "15 acknowledged +3"],
        )


async def test_failed_and_hanging_consumers_are_distinguished() -> None:
    async with running_broker() as broker:
        key = (await send(broker)).stored.unique_key
        for number in range(3):
            await broker.mover.advance(1 * S)
            [taken] = await receive(broker, invisible_us=30 * S)
            if number < 2:  # processing fails, and redelivery is due in ten seconds
                await broker.settler.extend(GROUP, [taken.handle], 10 * S)
                await broker.mover.advance(10 * S)
        await broker.mover.advance(30 * S)
        await receive(broker, invisible_us=5 * S)
        assert await life(broker, key) == (
            "stored",
            [
                *(
                    "0 sent",
                    "1 taken +1",
                    "1 postponed",
                    "12 taken",
                    "12 postponed",
                    "23 taken",
                    "53 expired",
                ),
                *("53 taken", "58 visible"),
            ],
        )
        told = [event.text for event in (await broker.histories.of(key)).life]
        assert told[2:4] == [f"postponed by {GROUP} for 10s", f"taken by {GROUP} for the 2nd time"]
        assert told[-3:] == [
            f"not acknowledged by {GROUP} in time",
            f"taken by {GROUP} for the 4th time",
            f"visible to {GROUP} again",
        ]


async def test_the_newest_attempts_are_kept() -> None:
    async with running_broker() as broker:
        await broker.registry.groups.put(GROUP, max_retries=1_000, retry_queues=1)
        key = (await send(broker)).stored.unique_key
        for _ in range(MOST_ATTEMPTS + 10):
            await receive(broker, invisible_us=1 * S)
            await broker.mover.advance(1 * S)
        taken = [event for event in (await broker.histories.of(key)).life if event.kind == "taken"]
        assert [event.times for event in taken] == list(range(11, MOST_ATTEMPTS + 11))


async def test_undelivered_take_is_left_out() -> None:
    async with running_broker() as broker:
        key = (await send(broker)).stored.unique_key
        await receive(broker, invisible_us=1 * S)
        await broker.mover.advance(1 * S)
        await broker.receiver.release(GROUP, await receive(broker))
        await receive(broker)
        assert (await life(broker, key))[1] == ["0 sent", "0 taken", "1 expired", "1 taken", "31 visible"]


async def test_life_of_half_messages() -> None:
    async with running_broker() as broker:
        halves = [await prepare(broker, body) for body in ("yes", "no", "open")]
        keys = [half.stored.unique_key for half in halves]
        assert await life(broker, keys[2]) == ("prepared", ["0 prepared"])
        await commit(broker, halves[:1])
        await rollback(broker, halves[1:2])
        assert await life(broker, keys[0]) == ("stored", ["0 prepared", "0 committed"])
        assert await life(broker, keys[1]) == ("rolled back", ["0 prepared", "0 rolled back"])
        await broker.mover.advance(30 * S)
        assert bodies(await pop(broker)) == ["open"]
        assert await life(broker, keys[2]) == ("prepared", ["0 prepared"])


async def test_takes_of_consumers_by_offset_survive_the_trail(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        key = await delayed(broker, "levels")
        await broker.mover.advance(60 * S)
        [place] = (await broker.histories.records(key))[1:]
        queue_id = broker.registry.topics.queue(place.queue_key).queue_id
        await broker.pull.pull("audit", TOPIC, queue_id, 0, 32)
        await broker.committed_offsets.report("audit", TOPIC, queue_id, 1)
        whole = await life(broker, key)
        assert whole == ("delivered", ["0 parked", "60 due", "60 delivered", "60 taken", "60 acknowledged"])
    async with running_broker(tmp_path) as broker:
        assert await life(broker, key) == whole


async def everything(broker: Broker) -> None:
    """Create a record of every kind."""
    await broker.faults.add_rule(FaultRule(do="deliver-late", by="1h", name="held", topic="held"))
    await send(broker, "sent")
    await acknowledge(broker, await receive(broker))
    for scheme in ("levels", "directories"):
        await delayed(broker, scheme, "delivered")
        await broker.pending.cancel(await delayed(broker, scheme, "cancelled"))
    await send(broker, "held", topic="held", **IN_A_MINUTE)
    await commit(broker, [await prepare(broker, "committed")])
    await broker.mover.advance(61 * S)
    first, second, *_ = await receive(broker)
    await give_back(broker, [first])
    await give_back(broker, [second], delay_level=-1)
    await delayed(broker, "levels", "parked")


async def test_record_kinds_are_found_in_earlier_stores(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await everything(broker)
    kinds = rows(tmp_path, KINDS)
    assert {row["kind"] for row in kinds} == {
        *("sent", "prepared", "committed", "parked", "held", "retried", "delivered", "cancelled", "dead")
    }
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.executescript(
            "ALTER TABLE runs DROP COLUMN brokers;"
            "DROP TABLE users; ALTER TABLE queues DROP COLUMN lite_topic;"
            "DROP INDEX messages_retried; ALTER TABLE messages DROP COLUMN kind;"
            " ALTER TABLE receipts DROP COLUMN attempts;"
            " UPDATE alembic_version SET version_num = '0012';"
        )
    async with running_broker(tmp_path):
        pass
    assert rows(tmp_path, KINDS) == kinds
