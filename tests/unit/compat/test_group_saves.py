"""Group saves finish a record whose sender was cancelled, and ``idle`` waits for it."""

import asyncio
from threading import Event, Semaphore

import pytest

from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.group_saves import GroupSaves
from mocketmq_compat.delay.memory_store import MemoryStore

FIRST, SECOND = Entry(1, 1, 1), Entry(2, 2, 2)


class SlowStore(MemoryStore):
    """A store whose writes each wait for a release of ``may_write``."""

    def __init__(self) -> None:
        super().__init__()
        self.is_writing = Event()
        self.may_write = Semaphore(0)

    def write(self, entry: Entry, content: bytes) -> None:
        self.is_writing.set()
        self.may_write.acquire()
        super().write(entry, content)


async def test_a_record_is_saved_though_its_sender_is_cancelled() -> None:
    store, saved = SlowStore(), list[Entry]()
    saves = GroupSaves(store, "always", saved.append, lambda _: None)
    cancelled = asyncio.create_task(saves.save(FIRST, b"first"))
    await asyncio.to_thread(store.is_writing.wait)
    other = asyncio.create_task(saves.save(SECOND, b"second"))
    idle = asyncio.create_task(saves.idle())
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert not idle.done()

    store.may_write.release(2)
    await asyncio.gather(idle, other)

    assert saved == [FIRST, SECOND]
    assert not saves.in_flight
    assert store.read(FIRST) == b"first"
    await saves.close()


async def test_idle_waits_only_for_records_submitted_so_far() -> None:
    store = SlowStore()
    saves = GroupSaves(store, "always", lambda _: None, lambda _: None)
    await asyncio.wait_for(saves.idle(), 10)
    first = asyncio.create_task(saves.save(FIRST, b"first"))
    await asyncio.to_thread(store.is_writing.wait)
    idle = asyncio.create_task(saves.idle())
    await asyncio.sleep(0)
    second = asyncio.create_task(saves.save(SECOND, b"second"))
    store.may_write.release()
    await idle
    assert first.done() and not second.done()
    store.may_write.release()
    await second
    await saves.close()
