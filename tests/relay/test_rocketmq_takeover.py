"""A relay in front of mocketmq is killed or suspended, and another relay takes over."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from mocketmq.clock import US_PER_MS, US_PER_S, wall_us
from tests.support.relays import (
    LOCK_S,
    LONG_US,
    QUEUES,
    User,
    forked_relay,
    ids_of,
    line_of,
    running_relay,
    user_of,
)
from tests.support.remoting import Remoting, running_remoting

LOCKS = ("--lock-time", f"{LOCK_S}s")


@asynccontextmanager
async def broker() -> AsyncIterator[tuple[Remoting, str, User]]:
    """A broker, its name server's address, and a user."""
    async with running_remoting(clock="real", auto_create_topics=False) as remoting:
        remoting.broker.queue_locks.lifetime_us = LOCK_S * US_PER_S
        host, port = remoting.emulator.settings.host, remoting.server.broker_port
        async with user_of(host, port) as user:
            yield remoting, f"{host}:{remoting.server.namesrv_port}", user


async def test_killed_relay_is_replaced_by_another() -> None:
    bodies = [b"%d" % number for number in range(60)]
    async with broker() as (remoting, name_server, user):
        first = await forked_relay(name_server, *LOCKS)
        try:
            await line_of(first, f"serving {QUEUES} partitions")
            await user.delay(bodies, 1_500)
            await user.delay([b"soon"], 1)
            await user.received([b"soon"])
        finally:
            first.kill()
        await first.wait()
        remoting.broker.queue_locks.lifetime_us = LONG_US  # from now on
        async with running_relay(name_server):
            records = await user.received(bodies)
    assert all(len(ids) == 1 for ids in ids_of(records).values())
    assert all(record.store_ms >= record.born_ms + 1_500 for record in records if record.body in bodies)


@pytest.mark.slow  # test_rocketmq_membership.py tests when a relay trusts a lock
async def test_suspended_relay_sends_no_message_taken_over() -> None:
    bodies = [b"%d" % number for number in range(40)]
    async with broker() as (remoting, name_server, user):
        suspended = await forked_relay(name_server, *LOCKS)
        try:
            await line_of(suspended, f"serving {QUEUES} partitions")
            first_due_us = wall_us() + 4_000 * US_PER_MS
            await user.delay(bodies, 4_000)
            await user.delay([b"soon"], 1)
            await user.received([b"soon"])
            os.kill(suspended.pid, signal.SIGSTOP)
            had_sent_none = wall_us() < first_due_us
            clients = remoting.broker.registry.clients
            for member in clients:  # as a broker drops silent clients, which takes two minutes
                clients.gone(member.channel)
            remoting.broker.queue_locks.lifetime_us = LONG_US  # from now on
            async with running_relay(name_server) as other:
                await user.received(bodies)
                os.kill(suspended.pid, signal.SIGCONT)
                await line_of(suspended, f"serving {QUEUES // 2} partitions")
            await user.delay([b"%d" % number for number in range(40, 50)], 1)
            records = await user.received([b"%d" % number for number in range(50)])
            suspended.terminate()
            assert await suspended.wait() == 0
        finally:
            with suppress(ProcessLookupError):
                os.kill(suspended.pid, signal.SIGCONT)
            suspended.kill()
    assert all(len(ids) == 1 for ids in ids_of(records).values())
    if had_sent_none:  # it also held no messages when it was suspended
        assert other.figures().forwarded >= len(bodies)
        assert len([record for record in records if record.body in bodies]) <= other.figures().forwarded
