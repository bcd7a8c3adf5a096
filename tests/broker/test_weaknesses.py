"""The weaknesses W1 to W10 of the broker patch whose layout second directories follow, one test each."""

import asyncio
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mocketmq.schedule import timed_scheme
from mocketmq.schedule.timer import BATCH
from mocketmq.store.batch import INSERT_DELAYED, INSERT_MESSAGE
from mocketmq.store.database import Database
from mocketmq_compat.delay import pending_reader
from mocketmq_compat.delay.delayed_file import Entry, decode
from mocketmq_compat.delay.directories.delay_directory import DelayDirectory
from mocketmq_compat.delay.group_saves import GroupSaves
from mocketmq_compat.delay.marks import Tidying
from tests.doors.remoting.gates import until
from tests.support.api import metrics_of, running_api
from tests.support.brokers import (
    S,
    bodies,
    rows,
    running_broker,
    send,
    visible,
)
from tests.support.patience import HANGING_S, PATIENCE_S
from tests.support.second_directories import (
    HOUR_MS,
    MS,
    message_files,
    names_below,
    no_removal_left,
    scheme_of,
    send_in,
    turn_by_hand,
)


async def test_w1_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    over = threading.Event()
    body = "x" * 2_000_000
    seen = set[Path]()

    def read_again_and_again() -> None:
        while not over.is_set():
            if files := message_files(tmp_path):
                assert len(decode(files[-1].read_bytes()).body) == len(body)
                seen.add(files[-1])

    async with running_broker(tmp_path, delay_sync="never") as broker:
        await send_in(broker, 1_000, body)
        reading = asyncio.create_task(asyncio.to_thread(read_again_and_again))
        try:
            await until(lambda: seen or reading.done())
            for number in range(40):  # each message enters a second that is being read
                await send_in(broker, 1_001 + number, body)
            await until(lambda: len(seen) > 1 or reading.done())
        finally:
            over.set()
        await reading


class Syncs:
    """Tracks every sync of the directory, and lets each begin only when the test allows it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on, self.ended = (threading.Event() for _ in range(3))
        self.synced: list[list[Entry]] = []
        real = DelayDirectory.sync

        def sync(directory: DelayDirectory, entries: Iterable[Entry]) -> None:
            entries = list(entries)
            self.begun.set()
            assert self.go_on.wait(HANGING_S)
            real(directory, entries)
            self.synced.append(entries)
            self.ended.set()

        monkeypatch.setattr(DelayDirectory, "sync", sync)


async def test_w2_acknowledged_messages_are_durable_by_the_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(monkeypatch)
    async with running_broker(tmp_path / "always") as broker:
        sending = asyncio.create_task(send_in(broker, 1_000))
        assert await asyncio.to_thread(syncs.begun.wait, HANGING_S)
        assert len(message_files(tmp_path / "always")) == 1
        assert (sending.done(), broker.pending.count) == (False, 0), "on disk, but may be lost with the power"
        syncs.go_on.set()
        sent = await sending
        assert [[entry.number for entry in some] for some in syncs.synced] == [[sent.stored.log_offset]]
        await asyncio.gather(*(send_in(broker, 1_000) for _ in range(50)))
        assert sum(map(len, syncs.synced)) == 51
        assert len(syncs.synced) < 30, "many share one"

    syncs = Syncs(monkeypatch)
    monkeypatch.setattr(GroupSaves, "interval_s", 0.01)
    async with running_broker(tmp_path / "interval", delay_sync="interval") as broker:
        sent = await send_in(broker, 1_000)  # answered although no sync has ended
        assert syncs.synced == []
        syncs.go_on.set()
        assert await asyncio.to_thread(syncs.ended.wait, HANGING_S)
        assert [entry.number for entry in syncs.synced[0]] == [sent.stored.log_offset]

    syncs = Syncs(monkeypatch)
    async with running_broker(tmp_path / "never", delay_sync="never") as broker:
        await send_in(broker, 1_000)
    assert not syncs.begun.is_set()


async def test_w3_strays_neither_stop_a_start_nor_a_delivery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_by_hand(monkeypatch)
    root = tmp_path / "delay"
    names = ["lost+found", "orders", "0170", "-5", "1_0", "١٧", "17e3"]
    for name in names:
        (root / name).mkdir(parents=True)
    (root / "orders" / "note.txt").write_text("somebody's")
    (root / "note").write_text("a file among the directories")
    for _ in range(2):
        async with running_broker(tmp_path) as broker:
            await send_in(broker, 1_000)
            for _ in range(3):
                await scheme_of(broker).tidy()
            assert broker.schemes.file_figures().put_aside == {"ignored": len(names) + 1}, (
                "each is named once"
            )
            assert (await broker.mover.advance(1 * S)).fired == 1
            await no_removal_left(broker)
        assert names_below(tmp_path) == sorted([*names, "note", "orders/note.txt"])


async def test_w4_a_poison_file_is_put_aside_with_the_reason_and_holds_up_nobody(tmp_path: Path) -> None:
    async with running_api(data=str(tmp_path)) as api:
        broker = api.emulator.broker
        for number in range(7):
            await send_in(broker, 1_000, str(number))
        first, _, third, _, fifth, *_ = message_files(tmp_path)
        poison = {
            first: (b"", "torn", "ends after 0 bytes"),
            third: (third.read_bytes()[:-1] + b"\0", "checksum", "checksum"),
            fifth: (b"no message at all", "stray", "does not begin"),
        }
        for path, (content, _, _) in poison.items():
            path.write_bytes(content)
        async with asyncio.timeout(PATIENCE_S):
            assert (await broker.mover.advance(1 * S)).fired == 4
        assert bodies(await visible(broker)) == ["1", "3", "5", "6"]
        assert {message.store_us for message in await visible(broker)} == {broker.clock.now_us()}
        for path, (content, _, reason) in poison.items():
            put_aside = tmp_path / "delay" / ".bad" / f"{path.parent.name}-{path.name}"
            assert put_aside.read_bytes() == content
            assert reason in put_aside.with_name(f"{put_aside.name}.reason").read_text()
        found = await metrics_of(api)
        assert [found["files_put_aside_total", kind] for _, kind, _ in poison.values()] == [1, 1, 1]
        name = broker.schemes.timed().name
        assert (found["quarantined_files",], found["pending_messages", "", name]) == (3, 0)
    async with running_broker(tmp_path) as broker:
        state = broker.schemes.file_figures()
        assert (state.quarantined, state.put_aside) == (3, {}), "met once, not for ever"
        assert broker.schemes.pending == 0


async def test_w5_a_file_that_cannot_be_removed_is_not_delivered_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_by_hand(monkeypatch)

    def refuse(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(DelayDirectory, "remove_file", refuse)
        async with running_broker(tmp_path) as broker:
            sent = [await send_in(broker, 1_000, str(number)) for number in range(4)]
            await broker.pending.cancel(sent[3].stored.unique_key)
            assert (await broker.mover.advance(1 * S)).fired == 3
            for _ in range(3):
                assert (await broker.mover.advance(1 * S)).fired == 0
                await scheme_of(broker).tidy()
                await no_removal_left(broker)
            assert (broker.schemes.file_figures().unremoved, broker.pending.count) == (4, 0)
        async with running_broker(tmp_path) as broker:
            await broker.mover.advance(1 * S)
            await no_removal_left(broker)
            assert (broker.schemes.file_figures().unremoved, len(message_files(tmp_path))) == (4, 4)
            patch.undo()
            await scheme_of(broker).tidy()
            await no_removal_left(broker)
            assert (broker.schemes.file_figures().unremoved, message_files(tmp_path)) == (0, [])
            assert bodies(await visible(broker)) == ["0", "1", "2"]


async def test_w6_a_file_that_a_crash_left_is_refused_by_its_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_by_hand(monkeypatch)
    copies = tmp_path / "copies"
    data = tmp_path / "data"
    async with running_broker(data) as broker:
        sent = [await send_in(broker, 1_000 * number, str(number)) for number in range(1, 5)]
        shutil.copytree(data / "delay", copies)  # the files that a crash before the removal would leave
        await broker.mover.advance(1 * S)
        await broker.pending.deliver_now(sent[1].stored.unique_key)
        await broker.pending.cancel(sent[2].stored.unique_key)
    shutil.copytree(copies, data / "delay", dirs_exist_ok=True)
    async with running_broker(data) as broker:
        assert bodies(one.message for one in await broker.pending.list()) == ["4"]
        await broker.mover.advance(60 * S)
        assert bodies(await visible(broker)) == ["1", "2", "4"]
        assert broker.schemes.file_figures().repeats == 3
        # Nor are they delivered when somebody copies them back while the broker runs.
        await no_removal_left(broker)
        shutil.copytree(copies, data / "delay", dirs_exist_ok=True)
        await scheme_of(broker).tidy()
        await broker.mover.advance(60 * S)
        assert (len(await visible(broker)), broker.schemes.file_figures().repeats) == (3, 7)
        await no_removal_left(broker)
        assert message_files(data) == []
    once = rows(data, "SELECT count(DISTINCT parked_offset) AS once, count(*) AS times FROM deliveries")
    assert once == [{"once": 3, "times": 3}]


async def test_w7_no_save_fails_because_its_directory_is_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir, removed = os.mkdir, list[str]()

    def made_and_gone(path: str, *args: Any, **more: Any) -> None:
        mkdir(path, *args, **more)
        if len(removed) < 5 and Path(path).name.isdigit():
            removed.append(path)
            Path(path).rmdir()

    async with running_broker(tmp_path) as broker:
        with monkeypatch.context() as patch:
            patch.setattr(os, "mkdir", made_and_gone)
            await send_in(broker, 1_000, "first")
        assert len(removed) == 5, "each time between making the directory and putting the file into it"
        # Each delivery empties the second that is about to get the next message.
        last = "first"
        for number in range(100):
            pending = (await broker.pending.list())[0].message.unique_key
            await asyncio.gather(
                broker.pending.deliver_now(pending), send_in(broker, 1_000, last := str(number))
            )
        assert bodies(await visible(broker)) == ["first", *map(str, range(99))]
        assert bodies(one.message for one in await broker.pending.list()) == [last]


async def test_w8_no_directory_is_listed_between_start_and_delivery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_by_hand(monkeypatch)  # in operation, a slow timer looks for foreign files
    assert Tidying.interval_s >= 30
    async with running_broker(tmp_path) as broker:
        for number in range(50):
            await send_in(broker, 1_000 * number + 1_000)
            await send_in(broker, HOUR_MS + 1_000 * number)
    listings: list[object] = []
    async with running_broker(tmp_path) as broker:

        def spy(real: Callable[..., Any], *args: object) -> Any:
            listings.append(args)
            return real(*args)

        for name in ("scandir", "listdir"):
            monkeypatch.setattr(os, name, partial(spy, getattr(os, name)))
        for _ in range(50):
            assert (await broker.mover.advance(1 * S)).fired == 1
        await send_in(broker, 5)
        assert (await broker.mover.move_to_next()).fired == 1
        await no_removal_left(broker)
        assert listings == []
        assert len(await visible(broker)) == 51
        await scheme_of(broker).tidy()
        assert listings, "a listing is noticed"


class Transactions:
    """Records what each transaction of a broker writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.deliveries: list[int] = []
        self.bytes: list[int] = []
        real = Database.transact

        async def transact(database: Database, statements: Any, *size: Any) -> None:
            if settled := statements.get(timed_scheme._SETTLE):
                self.deliveries.append(len(settled))
                messages = statements[INSERT_MESSAGE] + statements[INSERT_DELAYED]
                self.bytes.append(sum(len(row[9]) for row in messages))
            await real(database, statements, *size)

        monkeypatch.setattr(Database, "transact", transact)


@pytest.mark.parametrize("thousands", [3, pytest.param(10, marks=pytest.mark.slow)])
async def test_w9_a_second_with_many_files_is_delivered_in_bounded_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thousands: int
) -> None:
    transactions, many = Transactions(monkeypatch), 1_000 * thousands
    async with running_broker(tmp_path / "many", delay_sync="never", durability="normal") as broker:
        second_ms = 1_000 - broker.clock.now_us() // MS % 1_000
        for _ in range(thousands):
            await asyncio.gather(*(send_in(broker, second_ms + number % 1_000) for number in range(1_000)))
        assert broker.schemes.file_figures().parts == 1
        moving = asyncio.create_task(broker.mover.advance(10 * S))
        sent = 0
        while not moving.done():
            await send(broker, topic="others")
            sent += 1
        assert ((await moving).fired, len(await visible(broker))) == (many, many)
        assert max(transactions.deliveries) <= BATCH
        assert sum(transactions.deliveries) == many
        assert sent > thousands, "sends get through in between"

    transactions.bytes.clear()
    monkeypatch.setattr(pending_reader, "MAX_BATCH_BYTES", 50_000)
    async with running_broker(tmp_path / "large", delay_sync="never") as broker:
        for _ in range(20):
            await send_in(broker, 1_000, "x" * 20_000)
        await broker.mover.advance(1 * S)
        assert sum(transactions.bytes) == 20 * 20_000
        assert max(transactions.bytes) <= 50_000 + 20_000, "no more than one message above the limit"


async def test_w10_messages_of_one_second_come_in_order_of_millisecond_and_arrival(tmp_path: Path) -> None:
    dice = random.Random(10)
    async with running_broker(tmp_path) as broker:
        second_ms = 1_000 - broker.clock.now_us() // MS % 1_000
        due = [(dice.choice((0, 1, 500, 999)), number) for number in range(100)]
        for ms, number in due:
            await send_in(broker, second_ms + ms, str(number))
        [_] = {path.parent for path in message_files(tmp_path)}
    async with running_broker(tmp_path) as broker:
        await broker.mover.advance(2 * S)
        assert bodies(await visible(broker)) == [str(number) for _, number in sorted(due)]
