"""A relay in front of mocketmq is killed, and another takes over."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mocketmq.broker.consuming import queue_locks
from mocketmq.calling import call
from mocketmq.clock import US_PER_S
from tests.support.patience import HANGING_S
from tests.support.relays import (
    LOCK_S,
    QUEUES,
    User,
    forked_relay,
    ids_of,
    line_of,
    running_relay,
    user_of,
)
from tests.support.remoting import running_remoting

LOCKS = ("--lock-time", f"{LOCK_S}s")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests of this process take long on a busy machine; locks of its broker end soon."""
    monkeypatch.setattr(call, "CALL_S", HANGING_S)
    monkeypatch.setattr(queue_locks, "LIFETIME_US", LOCK_S * US_PER_S)


@asynccontextmanager
async def broker() -> AsyncIterator[tuple[str, User]]:
    """The name server's address, and a user."""
    async with running_remoting(clock="real", auto_create_topics=False) as remoting:
        host, port = remoting.emulator.settings.host, remoting.server.broker_port
        async with user_of(host, port) as user:
            yield f"{host}:{remoting.server.namesrv_port}", user


async def test_another_relay_takes_over_from_one_that_is_killed() -> None:
    bodies = [b"%d" % number for number in range(60)]
    async with broker() as (name_server, user):
        first = await forked_relay(name_server, *LOCKS)
        try:
            await line_of(first, f"serving {QUEUES} partitions")
            await user.delay(bodies, 2_500)
            await user.delay([b"soon"], 1)
            await user.received([b"soon"])
        finally:
            first.kill()
        await first.wait()
        async with running_relay(name_server, lock_us=LOCK_S * US_PER_S):
            records = await user.received(bodies)
    assert all(len(ids) == 1 for ids in ids_of(records).values())
    assert all(record.store_ms >= record.born_ms + 2_500 for record in records if record.body in bodies)
