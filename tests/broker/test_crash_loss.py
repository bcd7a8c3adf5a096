"""A crash loses what its broker stored last: messages, deliveries, acknowledgements, offsets, and no more."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mocketmq import event_loop
from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.receiver import InFlightMessage
from mocketmq.broker.registry.topic_config import PLAIN
from mocketmq.broker.registry.topics import Topics
from mocketmq.broker.snapshots.snapshot_file import SnapshotState
from mocketmq.broker.verification.expectations import Wanted
from mocketmq.broker.verification.message_matcher import MessageMatcher
from mocketmq.faults.rule import FaultRule
from mocketmq.message.message import Message, StoredMessage
from mocketmq.message.properties import LITE_TOPIC
from mocketmq.store.batch import Batch
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.stored_scheme import StoredScheme
from tests.broker.half_messages import commit, pop, prepare
from tests.support.brokers import (
    GROUP,
    TOPIC,
    S,
    acknowledge,
    bodies,
    give_back,
    receive,
    running_broker,
    send,
    visible,
)
from tests.support.patience import PATIENCE_S

A, B = "broker-a", "broker-b"
LOSES_US = 10 * S

KINDS = pytest.mark.parametrize("kind", ["level", "due time"])


async def delay(broker: Broker, kind: str, body: str, seconds: int) -> None:
    if kind == "level":
        await send(broker, body, level={1: 1, 30: 4}[seconds])
    else:
        await send(broker, body, TIMER_DELAY_MS=str(seconds * 1_000))


async def crash(broker: Broker, loses_us: int = LOSES_US, name: str = A) -> int:
    return (await broker.broker_lives.crash(name, loses_us)).lost


async def back(broker: Broker, name: str = A) -> None:
    """Start the broker again, and deliver what waited for it."""
    await broker.broker_lives.start(name)
    await broker.mover.advance(0)


async def rows_of(broker: Broker) -> list[tuple[object, ...]]:
    """The rows of all messages."""
    return await broker.store.database.rows("SELECT * FROM messages ORDER BY log_offset")


async def state(broker: Broker, body: str) -> tuple[str, list[str]]:
    """The state of the message and the last event of its life."""
    rows = await broker.store.database.rows(
        "SELECT unique_key FROM messages WHERE body = ?", (body.encode(),)
    )
    history = await broker.histories.of(rows[0][0])
    return history.state, [event.text for event in history.life]


async def test_messages_of_the_time_are_lost_and_their_offsets_used_again(anywhere: Path | str) -> None:
    async with running_broker(anywhere, topic_queues=1) as broker:
        await send(broker, "kept")
        await broker.mover.advance(S)
        await send(broker, "lost 1")
        await broker.mover.advance(LOSES_US - 1)
        await send(broker, "lost 2")
        assert await crash(broker) == 2
        await back(broker)
        assert bodies(await visible(broker)) == ["kept"]
        assert (await send(broker, "new")).stored.queue_offset == 1
        assert bodies(await receive(broker)) == ["kept", "new"]
        assert await state(broker, "lost 1") == (
            "lost",
            [f"sent to {TOPIC}", "lost when broker-a went down, 9.999999s after it was stored"],
        )
        assert (await state(broker, "kept"))[0] == "stored"


async def test_a_message_that_is_as_old_as_the_time_is_kept() -> None:
    async with running_broker() as broker:
        await send(broker, "kept")
        await broker.mover.advance(LOSES_US)
        assert await crash(broker) == 0
        assert bodies(await visible(broker)) == ["kept"]


async def test_the_setting_says_what_a_crash_loses() -> None:
    async with running_broker(crash_loses=LOSES_US) as broker:
        await send(broker, "lost")
        assert (await broker.broker_lives.crash(A)).lost == 1
        await back(broker)
        await send(broker, "kept")
        assert await crash(broker, 0) == 0
        await back(broker)
        await send(broker, "kept, too")
        await broker.broker_lives.shut_down(A)
        assert bodies(await visible(broker)) == ["kept", "kept, too"]


async def test_only_the_broker_that_crashes_loses_messages() -> None:
    async with running_broker(brokers=2, topic_queues=1) as broker:
        for body, queue in (("a", 0), ("b", 1)):
            await send(broker, body, queue=queue)
            await send(broker, f"{body} later", queue=queue, level=1)
            await send(broker, f"{body} at a time", queue=queue, TIMER_DELAY_MS="1000")
        assert await crash(broker, name=B) == 3
        await back(broker, B)
        await broker.mover.advance(S)
        assert sorted(bodies(await visible(broker))) == ["a", "a at a time", "a later"]
        assert (await state(broker, "b"))[1][-1].startswith("lost when broker-b went down")


async def test_what_is_lost_stays_lost_after_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path, topic_queues=1) as broker:
        await send(broker, "kept")
        await broker.mover.advance(LOSES_US)
        await send(broker, "lost")
        for kind in ("level", "due time"):
            await delay(broker, kind, f"lost by {kind}", 30)
        assert await crash(broker) == 3
    async with running_broker(tmp_path, topic_queues=1) as broker:
        await broker.mover.advance(60 * S)
        assert bodies(await visible(broker)) == ["kept"]
        assert (await send(broker, "new")).stored.queue_offset == 1
        for body in ("lost", "lost by level", "lost by due time"):
            assert (await state(broker, body))[0] == "lost"


# Delayed messages


@KINDS
async def test_pending_messages_of_the_time_are_never_delivered(kind: str, anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        await delay(broker, kind, "kept", 30)
        await broker.mover.advance(LOSES_US)
        await delay(broker, kind, "lost", 30)
        assert await crash(broker) == 1
        await back(broker)
        await broker.mover.advance(60 * S)
        assert bodies(await visible(broker)) == ["kept"]
        is_lost, life = await state(broker, "lost")
        assert (is_lost, life[-1][:28]) == ("lost", "lost when broker-a went down")
        assert not any(text == "due" or "delivered" in text or "cancelled" in text for text in life)


@KINDS
async def test_an_undone_delivery_is_delivered_again_once_and_not_early(
    kind: str, anywhere: Path | str
) -> None:
    async with running_broker(anywhere) as broker:
        await delay(broker, kind, "delayed", 30)
        await broker.mover.advance(30 * S)
        assert bodies(await visible(broker)) == ["delayed"]
        assert await crash(broker) == 0
        assert await visible(broker) == []
        assert (broker.held.pending, await broker.held.counts()) == (1, {"broker-a down": 1})
        assert (await state(broker, "delayed"))[0] == "pending"
        await broker.mover.advance(5 * S)
        assert await visible(broker) == []
        await back(broker)
        assert bodies(await visible(broker)) == ["delayed"]
        await broker.mover.advance(600 * S)
        assert bodies(await visible(broker)) == ["delayed"]
        [row] = await broker.store.database.rows("SELECT delivered_us - due_us, fault FROM deliveries")
        assert tuple(row) == (5 * S, "broker-a down")
        assert (await state(broker, "delayed"))[0] == "delivered"


@KINDS
async def test_a_message_sent_and_delivered_in_the_time_is_lost(kind: str, anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        await delay(broker, kind, "lost", 1)
        await broker.mover.advance(S)
        assert bodies(await visible(broker)) == ["lost"]
        assert await crash(broker) == 1
        await back(broker)
        await broker.mover.advance(600 * S)
        assert await visible(broker) == []
        assert (await state(broker, "lost"))[0] == "lost"
        assert await broker.store.database.rows("SELECT * FROM deliveries") == []


@KINDS
async def test_a_message_delivered_by_hand_in_the_time_is_lost(kind: str) -> None:
    async with running_broker() as broker:
        await delay(broker, kind, "lost", 30)
        await broker.mover.advance(LOSES_US)
        [pending] = await broker.pending.list()
        await broker.pending.deliver_now(pending.message.unique_key)
        assert await crash(broker) == 1
        await back(broker)
        await broker.mover.advance(60 * S)
        assert await visible(broker) == []
        assert (await state(broker, "lost"))[0] == "lost"


@KINDS
async def test_repeats_of_an_undone_delivery_are_not_delivered_twice(kind: str) -> None:
    async with running_broker() as broker:
        await broker.faults.add_rule(FaultRule(do="deliver-again", by="1s"))
        await delay(broker, kind, "twice", 30)
        await broker.mover.advance(31 * S)
        assert bodies(await visible(broker)) == ["twice", "twice"]
        assert await crash(broker) == 0
        await back(broker)
        assert bodies(await visible(broker)) == ["twice"]


@KINDS
async def test_held_messages_of_the_time_are_lost(kind: str) -> None:
    async with running_broker() as broker:
        await broker.faults.add_rule(FaultRule(do="deliver-late", by="1h"))
        for body in ("kept", "lost"):
            await delay(broker, kind, body, 1)
            await broker.mover.advance(LOSES_US - 2 if body == "kept" else 2 * S)
        assert broker.held.pending == 2
        assert await crash(broker) == 1
        await back(broker)
        await broker.mover.advance(3_700 * S)
        assert bodies(await visible(broker)) == ["kept"]
        assert (await state(broker, "lost"))[0] == "lost"


# Consumers


async def test_acknowledgements_of_the_time_are_undone() -> None:
    async with running_broker(topic_queues=1) as broker:
        for body in ("early", "late"):
            await send(broker, body)
        early, late = await receive(broker, invisible_us=60 * S)
        await acknowledge(broker, [early])
        await broker.mover.advance(LOSES_US)
        await acknowledge(broker, [late])
        assert await crash(broker) == 0
        await back(broker)
        assert await receive(broker) == []
        await broker.mover.advance(60 * S)
        again: list[InFlightMessage] = await receive(broker)
        assert bodies(again) == ["late"]
        await acknowledge(broker, again)
        assert (await state(broker, "late"))[1][-1] == f"acknowledged by {GROUP}"


async def test_retries_of_the_time_are_lost() -> None:
    async with running_broker() as broker:
        await send(broker, "given back")
        taken = await receive(broker)
        await broker.mover.advance(LOSES_US)
        await give_back(broker, taken, 1)
        assert await crash(broker) == 1
        await back(broker)
        await broker.mover.advance(60 * S)
        assert await receive(broker) == []
        assert (await state(broker, "given back"))[0] == "lost"


async def test_receivers_get_new_messages_at_offsets_that_were_lost() -> None:
    async with running_broker(topic_queues=1) as broker:
        await send(broker, "lost")
        taken = await receive(broker)
        assert await crash(broker) == 1
        await back(broker)
        await send(broker, "new")
        assert bodies(await receive(broker)) == ["new"]
        settled = await acknowledge(broker, taken)
        assert settled.failed


async def test_commits_of_the_time_are_undone() -> None:
    async with running_broker(topic_queues=1) as broker:
        for body in "abc":
            await send(broker, body)
        offsets = broker.committed_offsets
        await broker.consuming_groups.for_consuming(GROUP)
        assert offsets.start_offset(GROUP, TOPIC, 0) == 0
        await offsets.report(GROUP, TOPIC, 0, 1)
        await broker.mover.advance(LOSES_US)
        await offsets.report(GROUP, TOPIC, 0, 2)
        await offsets.report(GROUP, TOPIC, 0, 3)
        assert await crash(broker) == 0
        await back(broker)
        assert offsets.of(GROUP, TOPIC, 0) == 1


async def test_no_group_stays_beyond_the_end_of_a_queue() -> None:
    async with running_broker(topic_queues=1) as broker:
        await send(broker, "kept")
        await broker.mover.advance(LOSES_US)
        await send(broker, "lost")
        await broker.consuming_groups.for_consuming(GROUP)
        await broker.committed_offsets.commit(GROUP, TOPIC, 0, 2)
        assert await crash(broker) == 1
        assert broker.committed_offsets.of(GROUP, TOPIC, 0) == 1


# Transactions


async def test_half_messages_and_commits_of_the_time_are_lost() -> None:
    async with running_broker() as broker:
        await prepare(broker, "half")
        assert await crash(broker) == 1
        await back(broker)
        await broker.mover.advance(600 * S)
        assert (await state(broker, "half"))[0] == "lost"
        await prepare(broker, "committed")
        await broker.mover.advance(2 * LOSES_US)
        await commit(broker, await pop(broker))
        assert await crash(broker) == 1
        await back(broker)
        assert await visible(broker) == []


# Snapshots


async def test_a_snapshot_brings_back_what_a_crash_has_lost(anywhere: Path | str) -> None:
    async with running_broker(anywhere, topic_queues=1) as broker:
        for kind in ("level", "due time"):
            await delay(broker, kind, kind, 30)
        await broker.mover.advance(30 * S)
        await send(broker, "lost")
        before = bodies(await visible(broker))
        await broker.snapshots.save("here")
        assert await crash(broker) == 1
        await broker.snapshots.restore("here")
        assert sorted(before) == ["due time", "level", "lost"]
        assert bodies(await visible(broker)) == before
        assert (await state(broker, "lost"))[0] == "stored"
        assert broker.held.pending == 0
        await broker.mover.advance(600 * S)
        assert bodies(await visible(broker)) == before


async def test_a_crash_during_a_save_is_later_than_the_snapshot(
    anywhere: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are copied before the crash, and the file is written after it."""
    async with running_broker(anywhere, topic_queues=1) as broker:
        await send(broker, "lost")
        before = await rows_of(broker)
        shelf, writing, going_on = broker.snapshots.shelf, threading.Event(), threading.Event()
        write = shelf.write

        def write_slowly(name: str, file: bytes, state: SnapshotState | None = None) -> None:
            writing.set()
            going_on.wait(PATIENCE_S)
            write(name, file, state)

        monkeypatch.setattr(shelf, "write", write_slowly)
        saving = asyncio.create_task(broker.snapshots.save("here"))
        assert await asyncio.to_thread(writing.wait, PATIENCE_S)
        assert await crash(broker) == 1
        going_on.set()
        await saving
        await broker.snapshots.restore("here")
        assert await rows_of(broker) == before
        assert bodies(await visible(broker)) == ["lost"]


async def test_a_held_message_that_a_crash_cancelled_is_held_again(anywhere: Path | str) -> None:
    """The crash changes the message's record, which is older than the lost delivery."""
    async with running_broker(anywhere, topic_queues=1) as broker:
        await broker.faults.add_rule(FaultRule(do="deliver-late", by="1h"))
        held = await send(broker, "held", TIMER_DELAY_MS="1000")
        await broker.mover.advance(2 * S)
        for number in range(8):  # most messages are shared
            await send(broker, f"other {number}")
        await broker.mover.advance(60 * S)
        before = await rows_of(broker)
        await broker.snapshots.save("here")
        await broker.pending.deliver_now(held.stored.unique_key)
        assert await crash(broker) == 1
        await broker.snapshots.restore("here")
        assert await rows_of(broker) == before
        await broker.faults.clear()
        await broker.mover.advance(3_600 * S)
        assert bodies(await visible(broker))[-1] == "held"


# Expectations


async def test_expectations_name_the_crash() -> None:
    async with running_broker() as broker:
        await send(broker, "gone")
        await delay(broker, "level", "gone later", 1)
        await delay(broker, "due time", "gone at a time", 1)
        await crash(broker)
        await back(broker)
        found = await broker.expectations.wait(Wanted(TOPIC, MessageMatcher(), {"delivered": 3}), 10, 0)
        assert not found.reached
        assert found.counts["sent"] == 3
        assert found.explanation.count("lost when broker-a went down") == 3
        _, seen = await broker.expectations.sent(TOPIC, MessageMatcher(), 10)
        assert [one.sent.is_lost for one in seen] == [True] * 3


async def test_events_and_lists_name_lost_messages() -> None:
    async with running_broker() as broker:
        await send(broker, "gone")
        await crash(broker)
        events, _ = await broker.events.newest(10)
        assert [event.kind for event in events] == ["sent", "lost", "broker"]


async def test_a_crash_of_the_store_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker() as broker:
        await send(broker, "kept")
        message: dict[str, Any] = {}

        async def refuse(*_: object) -> None:
            message.update(refused=True)
            raise OSError("no")

        with monkeypatch.context() as patch:
            patch.setattr(broker.store.database, "transact", refuse)
            with pytest.raises(Exception, match="no"):
                await crash(broker)
        assert message
        assert broker.registry.brokers[0].state == "running"
        assert bodies(await visible(broker)) == ["kept"]
        await broker.sender.send(Message(TOPIC, b"next"))


# Lite topics


async def send_lite(broker: Broker, body: str) -> None:
    await broker.sender.send(Message("chats", body.encode(), {LITE_TOPIC: "room"}))


@pytest.mark.parametrize(("brokers", "left"), [(1, ["old"]), (2, ["old", "young", "while it was down"])])
async def test_lite_topics_are_lost_with_the_only_broker(brokers: int, left: list[str]) -> None:
    """Several brokers have them together, so their messages are taken while one is down."""
    async with running_broker(brokers=brokers, slaves=1) as broker:
        await broker.registry.topics.put("chats", 1, 1, 6, PLAIN.typed("lite"))
        await broker.faults.add_rule(FaultRule(do="replicate-late", by="5s"))
        await send_lite(broker, "old")
        await broker.mover.advance(LOSES_US)
        await send_lite(broker, "young")
        await broker.broker_lives.crash(A)
        if brokers > 1:
            await send_lite(broker, "while it was down")
        await broker.broker_lives.promote(A)
        [room] = broker.registry.topics.lites.of("chats")
        rows = await broker.store.database.rows(
            "SELECT body FROM messages WHERE queue_key = ? ORDER BY log_offset", (room.key,)
        )
        assert ([body.decode() for (body,) in rows], room.next_offset) == (left, len(left))


# Many pending messages


async def count_scans(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Keep 600 messages pending. The result gets the arguments of each scan of all of them."""
    for number in range(600):
        await send(broker, str(number), TIMER_DELAY_MS="60000")
    [scheme] = broker.schemes.all_timed
    assert isinstance(scheme, StoredScheme)
    scans, scan = list[int](), scheme.store.by_arrival

    def counted(after: int, limit: int) -> Sequence[Entry]:
        scans.append(after)
        return scan(after, limit)

    monkeypatch.setattr(scheme.store, "by_arrival", counted)
    return scans


async def test_a_loss_does_not_scan_pending_messages_many_times(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker() as broker:
        scans = await count_scans(broker, monkeypatch)
        assert await crash(broker) == 600
        assert len(scans) <= 2
        await broker.broker_lives.wipe(A)
        assert len(scans) <= 4


async def test_a_promotion_that_loses_nothing_reads_no_pending_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker(slaves=1) as broker:
        scans = await count_scans(broker, monkeypatch)
        assert (await broker.broker_lives.promote(A)).lost == 0
        assert scans == []


class TurnWork:
    """Counts the rows of transactions and the look-ups of queues in an iteration of the event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most = 0
        self._now = 0
        for owner, name in ((Batch, "execute"), (Topics, "queue"), (StoredMessage, "_replace")):
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def count(*given: Any, **named: Any) -> Any:
            if not self._now:
                asyncio.get_running_loop().call_soon(self._end_turn)
            self._now += 1
            self.most = max(self.most, self._now)
            return call(*given, **named)

        return count

    def _end_turn(self) -> None:
        self._now = 0


@pytest.mark.parametrize(("age_us", "lost"), [(0, 400), (30 * S, 0)], ids=["lost", "undone"])
async def test_no_iteration_of_the_event_loop_removes_many_messages(
    age_us: int, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "PIECE", 10)
    async with running_broker() as broker:
        for _ in range(100):
            await send(broker, "sent")
            await delay(broker, "level", "by level", 30)
            await delay(broker, "due time", "by time", 30)
            await prepare(broker)
        await broker.mover.advance(age_us)
        await acknowledge(broker, await receive(broker))
        work = TurnWork(monkeypatch)
        assert await crash(broker) == lost
        await broker.broker_lives.wipe(A)
        assert work.most < 150
