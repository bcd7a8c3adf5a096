"""Which requests wait for a sync of the disk, and what others can do during the sync."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.clock import US_PER_S
from mocketmq.schedule.scheme import PendingFilter
from mocketmq.store.database import Database
from tests.doors.remoting.gates import until
from tests.support.brokers import GROUP, TOPIC, running_broker, send
from tests.support.patience import PATIENCE_S

Act = Callable[[Broker, str], Awaitable[object]]


class HeldDisk:
    """A disk whose syncs begin but do not end while ``is_free`` is not set."""

    def __init__(self) -> None:
        self.is_free = threading.Event()
        self.is_free.set()
        self.begun = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def sync(self) -> None:
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self.is_free.wait(PATIENCE_S)

    def hold(self) -> None:
        self.is_free.clear()
        self.begun.clear()


@pytest.fixture
async def disk(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HeldDisk]:
    disk = HeldDisk()
    monkeypatch.setattr(Database, "sync", disk.sync)
    yield disk
    disk.is_free.set()


async def test_acknowledgement_waits_for_a_sync_and_receive_does_not(disk: HeldDisk, tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker)
        await broker.registry.groups.for_use(GROUP)
        disk.hold()
        [taken] = await broker.receiver.receive(GROUP, TOPIC, max_messages=1, invisible_us=30 * US_PER_S)
        assert not disk.begun.is_set()
        acknowledging = asyncio.create_task(broker.settler.acknowledge(GROUP, [taken.handle]))
        await _begun(disk)
        assert not acknowledging.done()
        disk.is_free.set()
        assert (await acknowledging).done == [taken.handle]


@pytest.mark.parametrize(
    "act",
    [
        lambda broker, key: broker.pending.cancel(key),
        lambda broker, key: broker.pending.deliver_now(key),
        lambda broker, _key: broker.pending.cancel_all(PendingFilter(TOPIC)),
        lambda broker, _key: broker.mover.advance(US_PER_S),
        lambda broker, _key: broker.reset.topic(TOPIC),
        lambda broker, _key: broker.reset.all(),
    ],
    ids=["cancel", "deliver", "cancel all", "move", "reset of a topic", "reset"],
)
async def test_deliveries_continue_while_an_intervention_waits_for_its_sync(
    act: Act, disk: HeldDisk, tmp_path: Path
) -> None:
    async with running_broker(tmp_path) as broker:
        key = (await send(broker, level=3)).stored.unique_key
        disk.hold()
        acting = asyncio.ensure_future(act(broker, key))
        await _begun(disk)
        assert not broker.timer.lock.locked()
        assert not acting.done()
        disk.is_free.set()
        await acting


async def test_deliveries_continue_while_a_message_that_cancels_another_waits_for_its_sync(
    disk: HeldDisk, tmp_path: Path
) -> None:
    async with running_broker(tmp_path, timed_scheme="slots") as broker:
        key = (await send(broker, TIMER_DELAY_MS="60000")).stored.unique_key
        disk.hold()
        sending = asyncio.ensure_future(send(broker, TIMER_DEL_UNIQKEY=key, TIMER_DELAY_MS="1"))
        await _begun(disk)
        assert not broker.timer.lock.locked()
        assert not sending.done()
        assert broker.schemes.pending == 0
        disk.is_free.set()
        await sending


async def test_group_is_usable_while_its_deletion_waits_for_its_sync(disk: HeldDisk, tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.registry.groups.for_use(GROUP)
        group = await broker.consuming_groups.for_consuming(GROUP)
        disk.hold()
        deleting = asyncio.ensure_future(broker.consuming_groups.delete(GROUP, clean_offsets=True))
        await _begun(disk)
        assert not group.lock.locked()
        assert not deleting.done()
        disk.is_free.set()
        await deleting


async def test_a_topic_is_created_while_another_waits_for_its_sync(disk: HeldDisk, tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        topics = broker.registry.topics
        disk.hold()
        first = asyncio.ensure_future(topics.put_by_client("first", 4, 4, 6))
        await _begun(disk)
        second = asyncio.ensure_future(topics.put_by_client("second", 4, 4, 6))
        await until(lambda: topics.find_topic("second") is not None)
        again = asyncio.ensure_future(topics.put_by_client("second", 4, 4, 6))
        await asyncio.sleep(0)
        assert [each.done() for each in (first, second, again)] == [False] * 3
        disk.is_free.set()
        assert [(await each).name for each in (first, second, again)] == ["first", "second", "second"]


async def _begun(disk: HeldDisk) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await disk.begun.wait()
