"""If the second of three records is damaged, it is quarantined and counted, and the others are delivered."""

import errno
import os
from contextlib import closing
from pathlib import Path

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.errors import StoreUnavailableError
from mocketmq.settings import TimedSchemeName
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.slots.data_file import MAGIC as SLOTS_MAGIC
from mocketmq_compat.delay.sorted.sorted_store import SortedStore
from mocketmq_compat.delay.store import DelayStore
from mocketmq_compat.delay.wheel.record import MAGIC as WHEEL_MAGIC
from tests.support.brokers import S, running_broker
from tests.support.second_directories import (
    HOUR_MS,
    MS,
    in_order_of_delivery,
    message_files,
    no_removal_left,
    refuse,
    scheme_of,
    send_in,
)

SECOND = 2
"""Index of the part with the second record, after the file is split at the heads of records."""


def spoil_second(path: Path, magic: bytes, part: str) -> None:
    """Change the head or the content of the second record, but no byte of its body."""
    parts = path.read_bytes().split(magic)
    head, content = parts[SECOND][:20], parts[SECOND][20:]
    if part == "head":
        head = bytes(byte ^ 0xFF for byte in head)
    else:
        content = content.replace(b'"topic"', b'"TOPIC"')
    parts[SECOND] = head + content
    path.write_bytes(magic.join(parts))


def spoil_wheel(data: Path, part: str) -> None:
    path = max((data / "wheel").glob("*.log"))  # the later file
    spoil_second(path, WHEEL_MAGIC, part)


def spoil_slots(data: Path, part: str) -> None:
    [path] = (data / "slots" / "data").iterdir()
    spoil_second(path, SLOTS_MAGIC, "content" if part == "content" else "head")
    if part == "head, and the index is lost":
        [index] = (data / "slots" / "index").iterdir()
        index.unlink()


def spoil_directories(data: Path) -> None:
    _, path, _ = message_files(data)
    path.write_bytes(path.read_bytes().replace(b"two", b"TWO"))


def spoil_sorted(store: SortedStore) -> None:
    """Change the body of the second record."""
    entry = store.by_arrival(-1, SECOND)[-1]
    content = store.read(entry)
    store.forget([entry])
    store.write(entry, content.replace(b"two", b"TWO"))


def put_aside(data: Path) -> bytes:
    [reason] = data.glob("*/.bad/*.reason")
    return reason.with_suffix("").read_bytes()


async def send_three(broker: Broker, delay_ms: int) -> None:
    for body in ("one", "two", "three"):
        await send_in(broker, delay_ms, body)


async def delivered(broker: Broker) -> list[str]:
    await broker.mover.advance(2 * HOUR_MS * MS)
    return await in_order_of_delivery(broker)


async def assert_two_of_three_come(broker: Broker, data: Path) -> None:
    assert [body for body in await delivered(broker) if body != "soon"] == ["one", "three"]
    figures = broker.schemes.file_figures()
    assert (figures.quarantined, sum(figures.put_aside.values()), broker.schemes.pending) == (1, 1, 0)
    assert b"two" in put_aside(data).lower()
    await no_removal_left(broker)


async def assert_counted_once(data: Path, scheme: TimedSchemeName) -> None:
    async with running_broker(data, timed_scheme=scheme) as broker:
        figures = broker.schemes.file_figures()
        assert (figures.quarantined, sum(figures.put_aside.values()), broker.schemes.pending) == (1, 0, 0)


@pytest.mark.parametrize("part", ["head", "content"])
async def test_wheel_with_a_damaged_second_record_at_the_start(part: str, tmp_path: Path) -> None:
    async with running_broker(tmp_path, timed_scheme="wheel") as broker:
        await send_three(broker, HOUR_MS)
    spoil_wheel(tmp_path, part)
    async with running_broker(tmp_path, timed_scheme="wheel") as broker:
        await assert_two_of_three_come(broker, tmp_path)
    await assert_counted_once(tmp_path, "wheel")


@pytest.mark.parametrize("part", ["head", "content"])
@pytest.mark.parametrize("delay_ms", [1_000, HOUR_MS], ids=["loaded", "not loaded yet"])
async def test_wheel_with_a_second_record_that_is_damaged_while_it_runs(
    part: str, delay_ms: int, tmp_path: Path
) -> None:
    async with running_broker(tmp_path, timed_scheme="wheel") as broker:
        if delay_ms == HOUR_MS:
            await send_in(broker, 1, "soon")  # so that the others are not in the first file
        await send_three(broker, delay_ms)
        spoil_wheel(tmp_path, part)
        await assert_two_of_three_come(broker, tmp_path)
    await assert_counted_once(tmp_path, "wheel")


@pytest.mark.parametrize("part", ["content", "head, and the index is lost"])
async def test_slots_with_a_damaged_second_record_at_the_start(part: str, tmp_path: Path) -> None:
    async with running_broker(tmp_path, timed_scheme="slots") as broker:
        await send_three(broker, HOUR_MS)
    spoil_slots(tmp_path, part)
    async with running_broker(tmp_path, timed_scheme="slots") as broker:
        await assert_two_of_three_come(broker, tmp_path)
    await assert_counted_once(tmp_path, "slots")


async def test_slots_with_a_second_record_that_is_damaged_while_it_runs(tmp_path: Path) -> None:
    async with running_broker(tmp_path, timed_scheme="slots") as broker:
        await send_three(broker, HOUR_MS)
        spoil_slots(tmp_path, "content")
        await assert_two_of_three_come(broker, tmp_path)
    await assert_counted_once(tmp_path, "slots")


@pytest.mark.parametrize("is_running", [True, False])
async def test_directories_with_a_damaged_second_file(is_running: bool, tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send_three(broker, HOUR_MS)
        if is_running:
            spoil_directories(tmp_path)
            await assert_two_of_three_come(broker, tmp_path)
    if not is_running:
        spoil_directories(tmp_path)
        async with running_broker(tmp_path) as broker:
            await assert_two_of_three_come(broker, tmp_path)
    await assert_counted_once(tmp_path, "directories")


async def test_sorted_with_a_damaged_second_record_at_the_start(tmp_path: Path) -> None:
    async with running_broker(tmp_path, timed_scheme="sorted") as broker:
        await send_three(broker, HOUR_MS)
    with closing(SortedStore(tmp_path / "sorted")) as store:
        spoil_sorted(store)
        store.sync([])
    async with running_broker(tmp_path, timed_scheme="sorted") as broker:
        await assert_two_of_three_come(broker, tmp_path)
    await assert_counted_once(tmp_path, "sorted")


async def test_sorted_with_a_second_record_that_is_damaged_while_it_runs(tmp_path: Path) -> None:
    async with running_broker(tmp_path, timed_scheme="sorted") as broker:
        await send_three(broker, HOUR_MS)
        store = scheme_of(broker).store
        assert isinstance(store, SortedStore)
        spoil_sorted(store)
        await assert_two_of_three_come(broker, tmp_path)
    await assert_counted_once(tmp_path, "sorted")


@pytest.mark.parametrize("is_running", [True, False])
async def test_slots_deliver_a_record_whose_head_alone_is_damaged(is_running: bool, tmp_path: Path) -> None:
    """The index locates the record, and its content has a separate checksum."""
    async with running_broker(tmp_path, timed_scheme="slots") as broker:
        await send_three(broker, HOUR_MS)
        if is_running:
            spoil_slots(tmp_path, "head")
            assert await delivered(broker) == ["one", "two", "three"]
    if not is_running:
        spoil_slots(tmp_path, "head")
        async with running_broker(tmp_path, timed_scheme="slots") as broker:
            assert await delivered(broker) == ["one", "two", "three"]
            assert broker.schemes.file_figures().put_aside == {}


async def test_a_message_that_the_disk_refuses_to_quarantine_stays_counted(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await send_in(broker, 1_000, "damaged")
        await send_in(broker, 1_001, "intact")
        engine = scheme_of(broker)
        damaged = engine.entries.first()
        read = engine.store.read

        def read_damage(_: DelayStore, entry: Entry) -> bytes:
            return b"damaged" if entry == damaged else read(entry)

        monkeypatch.setattr(type(engine.store), "read", read_damage)
        with monkeypatch.context() as full:
            full.setattr(type(engine.store), "put_aside", refuse)
            for _ in range(2):
                with pytest.raises(StoreUnavailableError, match=os.strerror(errno.ENOSPC)):
                    await broker.mover.advance(2 * S)
                await engine.entries.refill()
            assert broker.schemes.pending == 2
        await broker.mover.advance(2 * S)
        assert await in_order_of_delivery(broker) == ["intact"]
        await engine.tidy()
        assert (broker.schemes.pending, engine.store.count) == (0, 0)
