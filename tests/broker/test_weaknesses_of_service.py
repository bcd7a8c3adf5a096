"""The weaknesses W11 to W21 of the broker patch whose layout second directories follow, one test each."""

import asyncio
import threading
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mocketmq.clock import Clock, this_moment, wall_us
from mocketmq.errors import (
    IllegalMessageError,
    InvalidArgumentError,
    MessageNotFoundError,
    NotPendingError,
    RefusedError,
    StoreBusyError,
    StoreFullError,
    wire_codes,
)
from mocketmq.message.message import Message
from mocketmq.message.message_id import offset_message_id
from mocketmq.message.names import TIMER_TOPIC
from mocketmq.message.properties import START_DELIVER_TIME, TIMER_DELAY_MS
from mocketmq.schedule.timer import BATCH
from mocketmq.settings import StartDeliverMode
from mocketmq_compat.delay import pending_reader
from mocketmq_compat.delay.delayed_file import Entry, decode
from mocketmq_compat.delay.directories.delay_directory import DelayDirectory
from mocketmq_compat.delay.stored_scheme import StoredScheme
from tests.doors.remoting.gates import until
from tests.support.api import metrics_of, running_api
from tests.support.brokers import (
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
    message_files,
    names_below,
    no_removal_left,
    scheme_of,
    send_in,
)

DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences.md"

FORTY_DAYS_MS = 40 * 24 * HOUR_MS
WALL_MS = 1_700_000_000_000


async def test_w11_one_slow_or_poison_file_holds_up_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, begun, go_on = DelayDirectory.read, threading.Event(), threading.Event()

    def read_slowly(directory: DelayDirectory, entry: Entry) -> bytes:
        begun.set()
        assert go_on.wait(HANGING_S)
        return read(directory, entry)

    async with running_broker(tmp_path, delay_sync="never") as broker:
        await asyncio.gather(*(send_in(broker, 1_000, str(number)) for number in range(3 * BATCH)))
        due_us = broker.clock.now_us() + 1 * S
        message_files(tmp_path)[0].write_bytes(b"poison")
        before = broker.store.writer.commits
        with monkeypatch.context() as patch:
            patch.setattr(DelayDirectory, "read", read_slowly)
            moving = asyncio.create_task(broker.mover.advance(1 * S))
            assert await asyncio.to_thread(begun.wait, HANGING_S)
            # The broker's other work continues while the disk is slow.
            await send(broker, "at once", topic="others")
            await send(broker, "by level", topic="others", level=1)
            await send_in(broker, HOUR_MS, "for later", topic="others")
            assert bodies(await acknowledged(broker, "others")) == ["at once"]
            assert not moving.done()
            go_on.set()
            assert (await moving).fired == 3 * BATCH  # one message is poison, one has a level
        assert broker.store.writer.commits - before < 20, "not one transaction each"
        found = await visible(broker)
        assert bodies(found) == [str(number) for number in range(1, 3 * BATCH)]
        assert {message.store_us for message in found} == {due_us}


async def acknowledged(broker: Any, topic: str) -> Sequence[Any]:
    """Receive and acknowledge every available message of the topic, and return the messages."""
    taken = await receive(broker, topic=topic)
    await acknowledge(broker, taken)
    return taken


@pytest.mark.parametrize("mode", ["aliyun4", "aliyun5", "dongwo"])
async def test_w12_every_message_has_ids_by_which_it_is_found_and_cancelled(mode: StartDeliverMode) -> None:
    async with running_broker(start_deliver_time=mode) as broker:
        sent = [await send_in(broker, HOUR_MS, str(number)) for number in range(3)]
        listed = [one.message for one in await broker.pending.list()]
        assert listed == [one.stored for one in sent]
        ids = [offset_message_id(message.store_host, message.log_offset) for message in listed]
        assert len({*ids, *(message.unique_key for message in listed)}) == 6
        told = [one.receipt.offset_message_id for one in sent]
        assert told == (["0"] * 3 if mode == "dongwo" else ids)
        for message, offset_id in zip(listed, ids, strict=True):
            for message_id in (message.unique_key, offset_id):
                assert (await broker.histories.of(message_id)).records == [message]
        await broker.pending.cancel(listed[0].unique_key)
        await broker.pending.cancel(ids[1])
        assert bodies(one.message for one in await broker.pending.list()) == ["2"]
        with pytest.raises(MessageNotFoundError):
            await broker.pending.cancel("0")


@pytest.mark.parametrize("mode", ["aliyun4", "dongwo"])
async def test_w13_a_send_has_one_answer_which_echoes_nothing(mode: StartDeliverMode) -> None:
    async with running_api(start_deliver_time=mode) as api:
        fields: dict[str, Any] = {
            "body": "do not repeat this body",
            "queue_id": 2,
            "delay_ms": HOUR_MS,
            "properties": {"Signature": "do-not-repeat-this", "AccessKey": "nor-this"},
        }
        answer = await api.send(**fields)
        pending = (await api.emulator.broker.pending.list())[0].message
        own_id = offset_message_id(pending.store_host, pending.log_offset)
        reply = ("0", 1, 0) if mode == "dongwo" else (own_id, 2, 0)
        assert answer == {
            "message_id": pending.unique_key,
            "offset_message_id": reply[0],
            "topic": TOPIC,
            "queue_id": reply[1],
            "queue_offset": reply[2],
            "log_offset": pending.log_offset,
            "store_ms": pending.store_us // MS,
            "delay_level": 0,
            "due_ms": (pending.due_us or 0) // MS,
        }
        body = b'{"body":"do not repeat this body","delay_ms":5}'
        reader, writer = await asyncio.open_connection("127.0.0.1", int(api.emulator.url.rpartition(":")[2]))
        writer.write(
            b"POST /v1/topics/orders/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Signature: do-not-repeat-this\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        everything = await reader.read()
        writer.close()
        assert everything.count(b"HTTP/1.1 ") == everything.count(b"HTTP/1.1 201 ") == 1
        assert b"do-not-repeat-this" not in everything
        assert b"do not repeat this body" not in everything
        sent = await send_in(api.emulator.broker, 1_000, queue=3)
        assert (sent.receipt.queue_id, sent.receipt.queue_offset) == (1 if mode == "dongwo" else 3, reply[2])


async def test_w14_steps_of_the_wall_clock_neither_delay_nor_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks_us, stepped_us = 0, 0
    real_ns, real_s = time.time_ns, time.time
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + stepped_us * 1_000)
    monkeypatch.setattr(time, "time", lambda: real_s() + stepped_us / S)
    monkeypatch.setattr("mocketmq.broker.building.this_moment", partial(this_moment, steady=lambda: ticks_us))
    monkeypatch.setattr("mocketmq.broker.building.Clock", partial(Clock, ticks=lambda: ticks_us))
    async with running_broker(tmp_path, clock="real") as broker:
        started_us = broker.clock.now_us()
        await send_in(broker, 10_000, "first")
        await send_in(broker, 10_000, "second")
        before_us = wall_us()
        for step_us in (7_200 * S, -7_200 * S):
            stepped_us = step_us
            assert abs(wall_us() - before_us) > 7_000 * S, "who asks the wall clock is told so"
            broker.timer.changed()
            assert await receive(broker, wait_s=0.05) == []
            assert (broker.pending.count, broker.clock.now_us()) == (2, started_us)
        # Messages sent now stay behind messages sent while the wall clock was ahead.
        await send_in(broker, 10_000, "third")
        ticks_us = 10 * S + 1 * MS  # due times are whole milliseconds
        broker.timer.changed()
        assert await receive(broker, 1, wait_s=30)
        assert bodies(await visible(broker)) == ["first", "second", "third"]
        await send_in(broker, 5_000, "after a restart")
    async with running_broker(tmp_path, clock="real") as broker:
        assert broker.clock.now_us() >= started_us + 10 * S
        assert broker.pending.count == 1, "a restart two hours before its sending"
        ticks_us += 5 * S + 1 * MS
        broker.timer.changed()
        while len(await visible(broker)) < 4:
            await receive(broker, wait_s=30)
    wrong = rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us NOT BETWEEN due_us AND due_us + 1000")
    assert wrong == []


def test_w15_the_lack_of_replication_is_documented() -> None:
    assert "local to one broker" in DIFFERENCES.read_text()


async def test_w16_there_are_limits_and_means_to_look_and_to_take_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mocketmq.broker.building.Clock", partial(Clock, wall=lambda: WALL_MS * MS))
    beyond = {START_DELIVER_TIME: str(WALL_MS + FORTY_DAYS_MS + 1)}
    within = {START_DELIVER_TIME: str(WALL_MS + FORTY_DAYS_MS)}
    modes: list[StartDeliverMode] = ["aliyun4", "aliyun5", "dongwo"]
    for mode in modes:
        async with running_api(data=str(tmp_path / mode), start_deliver_time=mode) as api:
            broker = api.emulator.broker
            kept = await broker.sender.send(Message(TOPIC, b"within", dict(within)))
            assert kept.stored.due_us == broker.clock.now_us() + FORTY_DAYS_MS * MS
            if mode == "aliyun4":
                with pytest.raises(IllegalMessageError) as refused:
                    await broker.sender.send(Message(TOPIC, b"beyond", dict(beyond)))
                assert wire_codes(refused.value).remoting == 13
            else:
                await broker.sender.send(Message(TOPIC, b"beyond", dict(beyond)))
            assert bodies(await visible(broker)) == (["beyond"] if mode == "aliyun5" else [])
            waiting = 2 if mode == "dongwo" else 1
            assert (await metrics_of(api))["pending_messages", "", broker.schemes.timed().name] == waiting
            await broker.pending.cancel(kept.stored.unique_key)
            assert (await metrics_of(api))["pending_messages", "", broker.schemes.timed().name] == waiting - 1
            with pytest.raises(NotPendingError):
                await broker.pending.deliver_now(kept.stored.unique_key)
    async with running_broker(tmp_path / "quota", delay_quota_bytes=3 * 4_096) as broker:
        await broker.sender.send(Message(TOPIC, b"x" * 4_096, {TIMER_DELAY_MS: "1"}))
        with pytest.raises(StoreFullError):
            await send_in(broker, 1, "x" * 4_096)
        await send_in(broker, 1, "there is room for a small one")
    # Flow control: the broker refuses messages when the disk is too slow, and does not gather them in memory.
    async with running_broker(tmp_path / "flow") as broker:
        scheme_of(broker).saves.most_waiting = 10
        results = await asyncio.gather(*(send_in(broker, 1) for _ in range(50)), return_exceptions=True)
        busy = [result for result in results if isinstance(result, StoreBusyError)]
        assert len(busy) >= 30
        assert wire_codes(busy[0]).remoting == 2
        assert broker.pending.count == 50 - len(busy)
        await send_in(broker, 1)


@pytest.mark.parametrize("mode", ["aliyun4", "aliyun5", "dongwo"])
@pytest.mark.parametrize("text", ["", "soon", "1e3", " 1", "12.5", "0x10", "9" * 30, "٣", "1_000"])
async def test_w17_a_malformed_property_is_refused_in_the_words_of_the_mode(
    tmp_path: Path, mode: StartDeliverMode, text: str
) -> None:
    async with running_broker(tmp_path, start_deliver_time=mode) as broker:
        refusal: type[RefusedError] = InvalidArgumentError if mode == "dongwo" else IllegalMessageError
        with pytest.raises(refusal) as refused:
            await broker.sender.send(Message(TOPIC, b"x", {START_DELIVER_TIME: text}))
        assert wire_codes(refused.value).remoting == (1 if mode == "dongwo" else 13)
        assert (broker.pending.count, await visible(broker), names_below(tmp_path)) == (0, [], [])
        await send_in(broker, 1_000)
        assert broker.pending.count == 1


async def test_w18_overdue_messages_are_delivered_once_the_broker_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.registry.topics.ensure(TOPIC, 4)
        assert await receive(broker) == []  # creates a group that is owed the messages
        now_ms = broker.clock.now_us() // MS
    for number, late_ms in enumerate([50_000, 1, 2_000]):
        made(str(number), b"%d" % number, due_ms=now_ms - late_ms, number=number).put(tmp_path / "delay")
    firing, fired = StoredScheme.firing, list[int]()

    def firing_when_ready(scheme: StoredScheme, until_us: int) -> Any:
        fired.append(scheme.pending)
        assert scheme.context.topics.get(TOPIC).queues, "topics are loaded"
        assert not scheme.context.store.writer.task.done(), "the store can be written"
        return firing(scheme, until_us)

    monkeypatch.setattr(StoredScheme, "firing", firing_when_ready)
    for start in range(3):
        async with running_broker(tmp_path) as broker:
            async with asyncio.timeout(PATIENCE_S):
                while start == 0 and len(await visible(broker)) < 3:
                    await receive(broker, 1, wait_s=30)
            await broker.mover.advance(0)
            assert bodies(await visible(broker)) == ["0", "2", "1"]
            assert broker.pending.count == 0
    assert fired[0] == 3, "all of them in one go"
    found = rows(tmp_path, "SELECT count(*) AS count, min(run) AS first, max(run) AS last FROM deliveries")
    assert found == [{"count": 3, "first": 2, "last": 2}]


async def test_w19_half_messages_wait_for_their_commit_batches_for_each_of_theirs(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        delayed = {TIMER_DELAY_MS: "5000"}
        halves = [
            await broker.popped_halves.prepare(Message(TOPIC, body, dict(delayed)), 3_600 * S)
            for body in (b"committed early", b"committed late", b"rolled back", b"never decided")
        ]
        assert message_files(tmp_path) == []
        await broker.popped_halves.commit(TOPIC, [halves[0].handle])
        await broker.popped_halves.rollback(TOPIC, [halves[2].handle])
        assert bodies(one.message for one in await broker.pending.list()) == ["committed early"]
        assert (await broker.mover.advance(5 * S - 1)).fired == 0
        assert (await broker.mover.advance(1)).fired == 1
        await broker.mover.advance(60 * S)
        assert bodies(await visible(broker)) == ["committed early"]
        await broker.popped_halves.commit(TOPIC, [halves[1].handle])
        await broker.mover.advance(0)
        assert bodies(await visible(broker)) == ["committed early", "committed late"]

        now_us = broker.clock.now_us()
        sent = await broker.sender.send_batch(
            [Message(TOPIC, b"%d" % ms, {TIMER_DELAY_MS: str(ms)}) for ms in (2_000, 1_000, 0)]
        )
        due = [one.stored.due_us for one in sent]
        assert due == [now_us + 2 * S, now_us + 1 * S, None]
        for expected in ("0", "1000", "2000"):
            assert bodies(await visible(broker))[-1] == expected
            await broker.mover.advance(1 * S)
        await broker.mover.advance(25 * 3_600 * S)
        assert "never decided" not in bodies(await visible(broker))
        assert TIMER_TOPIC not in {row["topic"] for row in rows(tmp_path, "SELECT topic FROM deliveries")}


async def test_w20_an_unexpected_error_in_one_pass_ends_no_delivery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    firing, decode_file, failures = StoredScheme.firing, decode, list[int]()

    def fail_once(scheme: StoredScheme, until_us: int) -> Any:
        if not failures:
            failures.append(until_us)
            raise ZeroDivisionError("a defect in a pass")
        return firing(scheme, until_us)

    def fail_for_one(content: bytes) -> Any:
        if content.endswith(b"unlucky"):
            raise ZeroDivisionError("a defect that one file shows")
        return decode_file(content)

    monkeypatch.setattr(StoredScheme, "firing", fail_once)
    monkeypatch.setattr(pending_reader, "decode", fail_for_one)
    async with running_broker(tmp_path, clock="real") as broker:
        for body in ("first", "unlucky", "second"):
            await send_in(broker, 5, body)
        found: list[str] = []
        while len(found) < 2:
            taken = await receive(broker, wait_s=HANGING_S)
            assert taken, "the timer has ended"
            found += bodies(taken)
        assert bodies(await visible(broker)) == ["first", "second"]
        assert len(failures) == 1
        await send_in(broker, 5, "third")
        assert bodies(await receive(broker, wait_s=HANGING_S)) == ["third"]
        state = broker.schemes.file_figures()
        assert (state.quarantined, state.put_aside) == (1, {"defect": 1})


async def test_w21_many_messages_share_syncs_and_no_delivery_waits_for_a_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many, synced = 2 * BATCH + 9, list[int]()
    may_sync, may_remove = threading.Event(), threading.Event()
    real_sync, real_remove = DelayDirectory.sync, DelayDirectory.remove_file

    def sync(directory: DelayDirectory, entries: Iterable[Entry]) -> None:
        assert may_sync.wait(HANGING_S)
        entries = [*entries]
        synced.append(len(entries))
        real_sync(directory, entries)

    def remove(directory: DelayDirectory, entry: Entry) -> int:
        assert may_remove.wait(HANGING_S)
        return real_remove(directory, entry)

    monkeypatch.setattr(DelayDirectory, "sync", sync)
    monkeypatch.setattr(DelayDirectory, "remove_file", remove)
    async with running_broker(tmp_path) as broker:
        try:
            sending = asyncio.gather(*(send_in(broker, 1_000) for _ in range(many)))
            await until(lambda: len(scheme_of(broker).saves.in_flight) == many)
            may_sync.set()
            await sending
            assert (sum(synced), len(synced) <= 4) == (many, True)
            assert (await broker.mover.advance(1 * S)).fired == many
            assert len(message_files(tmp_path)) == many, "none is removed yet"
        finally:
            may_sync.set()
            may_remove.set()
        await no_removal_left(broker)
        assert message_files(tmp_path) == []
