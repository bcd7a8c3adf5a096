"""Mode ``dongwo``, rule by rule: the visible behaviour of the broker patch, without its weaknesses.

Rule numbers refer to docs/protocol/aliyun.md §3.2 and §3.3.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.receiver import InFlightMessage
from mocketmq.broker.sending.sender import SendResult
from mocketmq.clock import LATEST_US, Clock
from mocketmq.errors import (
    DelayedSendError,
    IllegalMessageError,
    InvalidArgumentError,
    MessageNotFoundError,
    StoreUnavailableError,
    wire_codes,
)
from mocketmq.message.message import Message
from mocketmq.message.properties import START_DELIVER_TIME, decode_properties
from mocketmq.schedule.send_receipt import SendReceipt
from mocketmq.store.database import Database
from mocketmq_compat.delay.delayed_file import Entry, decode
from mocketmq_compat.delay.directories.delay_directory import DelayDirectory
from mocketmq_compat.delay.directories.dongwo import SCAN_US
from tests.support.api import running_api
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
    visible,
)
from tests.support.delayed_files import made
from tests.support.second_directories import (
    MS,
    message_files,
    names_below,
    no_removal_left,
    scheme_of,
    turn_by_hand,
)

WALL_MS = 1_700_000_000_000
running_dongwo = partial(running_broker, start_deliver_time="dongwo")


@pytest.fixture(autouse=True)
def wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the wall clock, from which clients compute their start-deliver times."""
    monkeypatch.setattr("mocketmq.broker.building.Clock", partial(Clock, wall=lambda: WALL_MS * MS))


async def send_at(
    broker: Broker, ahead_ms: int, body: str = "hello", queue: int | None = None, **more: Any
) -> SendResult:
    """Send a message with a start-deliver time some milliseconds from now; ``more`` adds properties."""
    properties = {START_DELIVER_TIME: str(WALL_MS + ahead_ms), **more}
    return await broker.sender.send(Message(TOPIC, body.encode(), properties, queue))


async def delivered(broker: Broker) -> list[str]:
    return bodies(await visible(broker)) if broker.registry.topics.find_topic(TOPIC) else []


# D-2: which messages are delayed


@pytest.mark.parametrize(("mode", "is_delayed"), [("dongwo", True), ("aliyun4", False), ("aliyun5", False)])
async def test_d2_now_counts_as_delayed(mode: str, is_delayed: bool) -> None:
    async with running_broker(start_deliver_time=mode) as broker:
        await send_at(broker, 0)
        assert (broker.schemes.timed().pending == 1, await delivered(broker) == []) == (
            is_delayed,
            is_delayed,
        )


@pytest.mark.parametrize(("within_us", "past_ms"), [(0, -1), (1, -2), (999, -2)])
async def test_d2_the_current_millisecond_is_now_and_earlier_ones_are_past(
    within_us: int, past_ms: int
) -> None:
    async with running_dongwo() as broker:
        await broker.mover.advance(within_us)
        await send_at(broker, past_ms, "past")
        assert (broker.pending.count, await delivered(broker)) == (0, ["past"])
        await send_at(broker, past_ms + 1, "now")
        assert (broker.pending.count, await delivered(broker)) == (1, ["past"])
        await broker.mover.advance(2 * S)
        assert await delivered(broker) == ["past", "now"]


async def test_d2_a_delay_level_wins(tmp_path: Path) -> None:
    async with running_dongwo(tmp_path) as broker:
        sent = await send_at(broker, 3_600_000, DELAY="1")
        assert (sent.level, broker.schemes.timed().pending, names_below(tmp_path)) == (1, 0, [])
        assert sent.receipt.offset_message_id != "0", "the level's own answer"
        await broker.mover.advance(1 * S)
        assert await delivered(broker) == ["hello"]


@pytest.mark.parametrize("level", ["0", "-3"])
async def test_d2_an_invalid_level_does_not_delay(level: str) -> None:
    async with running_dongwo() as broker:
        await send_at(broker, 1_000, DELAY=level)
        assert broker.schemes.timed().pending == 1


# D-3: no upper bound on delays, and no delivery before the commit


async def test_d3_there_is_no_upper_bound_but_the_end_of_the_calendar() -> None:
    async with running_dongwo() as broker:
        start_us = broker.clock.now_us()
        last_ms = (LATEST_US - start_us) // MS
        for ahead_ms in (last_ms - 2_000, 41 * 24 * 3_600_000):
            sent = await send_at(broker, ahead_ms)
            assert sent.stored.due_us == start_us + ahead_ms * MS
        with pytest.raises(IllegalMessageError):
            await send_at(broker, last_ms + 1)
        for ahead_ms in (41 * 24 * 3_600_000, last_ms - 2_000):
            moved = await broker.mover.move_to_next()
            assert moved.fired == 1
            assert 0 <= moved.now_us - (start_us + ahead_ms * MS) < 1_200 * MS


async def test_d3_half_messages_wait_for_their_commit_unlike_upstream() -> None:
    async with running_dongwo() as broker:
        message = Message(TOPIC, b"half", {START_DELIVER_TIME: str(WALL_MS + 1_000)}, 2)
        half = await broker.popped_halves.prepare(message, 3_600 * S)
        await broker.mover.advance(60 * S)
        assert (broker.pending.count, await delivered(broker)) == (0, [])
        await broker.popped_halves.commit(TOPIC, [half.handle])
        await broker.mover.advance(2 * S)
        assert await delivered(broker) == ["half"]


# D-4, D-5, D-7: the answer


def position(receipt: SendReceipt) -> tuple[str, int, int]:
    return receipt.offset_message_id, receipt.queue_id, receipt.queue_offset


@pytest.mark.parametrize("queue", [None, 0, 1, 3])
async def test_d4_every_delayed_send_has_the_same_answer(queue: int | None) -> None:
    async with running_dongwo() as broker:
        sent = await send_at(broker, 1_000, queue=queue)
        assert position(sent.receipt) == ("0", 1, 0)
        at_once = await send_at(broker, -1, queue=queue)
        assert at_once.receipt.offset_message_id != "0"
        assert at_once.receipt.queue_id == at_once.queue.queue_id
        with pytest.raises(MessageNotFoundError):
            await broker.histories.records("0")


async def test_d4_a_batch_is_answered_message_by_message() -> None:
    async with running_dongwo() as broker:
        sent = await broker.sender.send_batch(
            [
                Message(TOPIC, b"delayed", {START_DELIVER_TIME: str(WALL_MS + 1_000)}, 3),
                Message(TOPIC, b"at once", {}, 3),
            ]
        )
        assert position(sent[0].receipt) == ("0", 1, 0)
        assert sent[1].receipt.queue_id == 3


class Refusing:
    """Ways in which a delay directory fails to save a message."""

    @staticmethod
    def write(*_: object) -> None:
        raise OSError(28, "No space left on device")

    @staticmethod
    def sync(_directory: DelayDirectory, entries: Iterable[Entry]) -> None:
        assert list(entries)
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("fault", ["write", "sync", "quota", "busy"])
async def test_d4_a_failed_save_is_refused_in_the_patchs_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    quota = 1 if fault == "quota" else 0
    async with running_api(data=str(tmp_path), start_deliver_time="dongwo", delay_quota_bytes=quota) as api:
        broker = api.emulator.broker
        if fault == "busy":
            scheme_of(broker).saves.most_waiting = 0
        elif fault != "quota":
            monkeypatch.setattr(DelayDirectory, fault, getattr(Refusing, fault))
        with pytest.raises(DelayedSendError) as failed:
            await send_at(broker, 1_000)
        assert str(failed.value) == "send delay message error!"
        assert wire_codes(failed.value).remoting == 1
        body = {"body": "x", "properties": {START_DELIVER_TIME: str(WALL_MS + 1_000)}}
        problem = await api.refused(503, "POST", f"/v1/topics/{TOPIC}/messages", body)
        assert problem["detail"] == "send delay message error!"
        assert (broker.pending.count, message_files(tmp_path), broker.sender.sent) == (0, [], 0)
        await send_at(broker, -1, "what is not delayed has nothing to do with it")
        assert len(await delivered(broker)) == 1


# D-6: malformed values


@pytest.mark.parametrize("text", ["soon", "", "1.5", "99999999999999999999"])
async def test_d6_a_malformed_value_is_answered_with_the_exception_of_java(text: str) -> None:
    async with running_dongwo() as broker:
        with pytest.raises(InvalidArgumentError) as refused:
            await broker.sender.send(Message(TOPIC, b"x", {START_DELIVER_TIME: text}))
        assert str(refused.value).startswith(f'java.lang.NumberFormatException: For input string: "{text}"')
        assert wire_codes(refused.value).remoting == 1
        assert (broker.pending.count, await delivered(broker)) == (0, [])


# D-7, D-8, D-9: the consumer's view


@pytest.mark.parametrize("queue", [0, 1, 3])
async def test_d7_a_message_goes_to_its_chosen_queue(tmp_path: Path, queue: int) -> None:
    async with running_dongwo(tmp_path) as broker:
        sent = await send_at(broker, 1_000, queue=queue)
        assert (sent.queue.queue_id, sent.receipt.queue_id) == (queue, 1)
    async with running_dongwo(tmp_path) as broker:
        await broker.mover.advance(3 * S)
        [message] = await visible(broker)
        assert broker.registry.topics.queue(message.queue_key).queue_id == queue


async def test_d8_the_property_stays_and_is_not_acted_upon_again() -> None:
    async with running_dongwo() as broker:
        await send_at(broker, 1_000, own="mine")
        await broker.mover.advance(3 * S)
        [taken] = await receive(broker)
        properties = decode_properties(taken.message.properties)
        assert (properties[START_DELIVER_TIME], properties["own"]) == (str(WALL_MS + 1_000), "mine")
        await give_back(broker, [taken], 1)
        assert (broker.schemes.timed().pending, broker.levels.pending) == (0, 1)
        await broker.mover.advance(1 * S)
        [again] = await receive(broker)
        assert decode_properties(again.message.properties)[START_DELIVER_TIME] == str(WALL_MS + 1_000)
        assert (await acknowledge(broker, [again])).done


async def test_d9_consumers_do_not_see_a_message_before_it_is_due(tmp_path: Path) -> None:
    async with running_dongwo(tmp_path) as broker:
        await broker.registry.topics.ensure(TOPIC, 4)
        assert await receive(broker) == []
        born_us = broker.clock.now_us()
        await send_at(broker, 1_000, queue=0, KEYS="k")
        queues = broker.registry.topics.get(TOPIC).queues
        assert [queue.next_offset for queue in queues] == [0] * 4
        assert (await broker.histories.by_key("k"), await receive(broker)) == ([], [])
        lags = [place.lag for place in broker.consuming_groups.get(GROUP).queues.values()]
        assert sum(lags) == 0
        moved = await broker.mover.move_to_next()
        [message] = await broker.histories.by_key("k")
        assert (message.born_us, message.store_us) == (born_us, moved.now_us)
        assert message.queue_offset == 0


# D-10: the layout


async def test_d10_one_directory_a_second_and_one_file_a_message(tmp_path: Path) -> None:
    async with running_dongwo(tmp_path) as broker:
        now_ms = broker.clock.now_us() // MS
        second = now_ms // 1_000 + 5
        offsets = [second * 1_000 + ms - now_ms for ms in (0, 1, 999, 1_000)]
        for ahead_ms in offsets:
            await send_at(broker, ahead_ms, str(ahead_ms))
        files = message_files(tmp_path)
        assert [path.parent.name for path in files] == [str(second)] * 3 + [str(second + 1)]
        assert [decode(path.read_bytes()).body.decode() for path in files] == [str(ms) for ms in offsets]
        assert sorted(names_below(tmp_path)) == sorted(
            [str(second), str(second + 1), *(f"{path.parent.name}/{path.name}" for path in files)]
        )


# D-11: scans


@pytest.mark.parametrize("started_ms", [0, 1, 150, 199, 999])
async def test_d11_scans_come_each_200_ms_and_look_at_whole_seconds(tmp_path: Path, started_ms: int) -> None:
    async with running_dongwo(tmp_path) as broker:
        to_second_us = -broker.clock.now_us() % S
        await broker.mover.advance(to_second_us + started_ms * MS)
    async with running_dongwo(tmp_path) as broker:
        start_us = broker.clock.now_us()
        assert start_us % S == started_ms * MS
        for ahead_ms in (1_700, 2_000, 2_500, 5_001):
            due_us = (await send_at(broker, ahead_ms)).stored.due_us
            assert due_us == start_us + ahead_ms * MS
            second_us = -(-due_us // S) * S
            scans = [start_us + count * SCAN_US for count in range(60)]
            expected_us = min(instant_us for instant_us in scans if instant_us >= second_us)
            assert broker.pending.next_due_us == expected_us
            assert (await broker.mover.move_to(expected_us - 1)).fired == 0
            assert (await broker.mover.advance(1)).fired == 1
            start_us = start_us + (broker.clock.now_us() - start_us) // SCAN_US * SCAN_US
            await broker.mover.move_to(start_us)
        assert broker.schemes.timed().early == 0
    late = rows(tmp_path, "SELECT delivered_us - due_us AS late_us, scheme FROM deliveries")
    assert len(late) == 4
    assert {row["scheme"] for row in late} == {"dongwo"}
    assert all(0 <= row["late_us"] < 1_200 * MS for row in late)
    assert any(row["late_us"] > 0 for row in late)


async def test_d11_overdue_messages_are_delivered_at_startup(tmp_path: Path) -> None:
    async with running_dongwo(tmp_path) as broker:
        start_us = broker.clock.now_us()
    for number, late_ms in enumerate([60_000, 1_000, 30_000]):
        made(str(number), b"%d" % number, due_ms=start_us // MS - late_ms, number=number).put(
            tmp_path / "delay"
        )
    async with running_dongwo(tmp_path) as broker:
        taken: list[InFlightMessage] = []
        while len(taken) < 3:
            taken += await receive(broker, wait_s=30)
        assert await delivered(broker) == ["0", "2", "1"]
        assert {message.store_us for message in await visible(broker)} == {start_us}, "without any move"


async def test_d11_a_clock_that_runs_scans_by_itself(tmp_path: Path) -> None:
    async with running_dongwo(tmp_path, clock="x20") as broker:
        sent = await send_at(broker, 500)
        [taken] = await receive(broker, wait_s=30)
        assert sent.stored.due_us is not None
        assert taken.message.store_us >= -(-sent.stored.due_us // S) * S


# D-12, D-13: passes


async def test_d12_seconds_go_in_order_and_one_poison_file_stops_no_others(tmp_path: Path) -> None:
    async with running_dongwo(tmp_path) as broker:
        await broker.mover.advance(-broker.clock.now_us() % S)
        for ahead_ms in (3_100, 1_100, 2_100, 1_200):
            await send_at(broker, ahead_ms, str(ahead_ms))
        message_files(tmp_path)[0].write_bytes(b"poison")
        await broker.mover.advance(10 * S)
        assert await delivered(broker) == ["1200", "2100", "3100"]
        await no_removal_left(broker)
        assert message_files(tmp_path) == []
        assert broker.schemes.file_figures().quarantined == 1


async def test_d12_an_undeliverable_message_is_kept_and_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_dongwo(tmp_path) as broker:
        for number in range(3):
            await send_at(broker, 1_000, str(number))

        async def refuse(*_: object) -> None:
            raise StoreUnavailableError("no space left")

        with monkeypatch.context() as patch:
            patch.setattr(Database, "transact", refuse)
            for _ in range(2):
                with pytest.raises(StoreUnavailableError):
                    await broker.mover.advance(5 * S)
            assert (len(message_files(tmp_path)), broker.pending.count) == (3, 3)
        assert (await broker.mover.advance(5 * S)).fired == 3
        assert await delivered(broker) == ["0", "1", "2"]


@pytest.mark.parametrize("is_running", [True, False])
async def test_d13_an_empty_directory_is_removed_when_it_is_due_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_running: bool
) -> None:
    turn_by_hand(monkeypatch)
    async with running_dongwo(tmp_path) as broker:
        now_s = broker.clock.now_us() // S
        names = [str(now_s - 1_000), str(now_s), str(now_s + 1), str(now_s + 1_000)]
        for name in names:
            (tmp_path / "delay" / name).mkdir()
        if is_running:
            await scheme_of(broker).tidy()
    if not is_running:
        async with running_dongwo(tmp_path):
            assert names_below(tmp_path) == names[2:]
    assert names_below(tmp_path) == names[2:]


async def test_d13_the_directory_of_a_second_goes_with_its_last_message(tmp_path: Path) -> None:
    async with running_dongwo(tmp_path) as broker:
        for ahead_ms in (1_000, 1_001, 60_000):
            await send_at(broker, ahead_ms)
        await broker.mover.advance(5 * S)
        await no_removal_left(broker)
        assert len(names_below(tmp_path)) == 2
        assert broker.schemes.file_figures().parts == 1


async def test_files_do_not_depend_on_the_mode(tmp_path: Path) -> None:
    async with running_dongwo(tmp_path) as broker:
        sent = await send_at(broker, 60_000)
        assert broker.schemes.timed().name == "dongwo"
    async with running_broker(tmp_path) as broker:
        assert broker.schemes.timed().name == "directories"
        assert (await broker.pending.list())[0].message == sent.stored
        assert (await broker.mover.move_to_next()).now_us == sent.stored.due_us
