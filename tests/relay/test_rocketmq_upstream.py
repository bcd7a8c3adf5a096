"""Relays in front of real RocketMQs; relays and brokers are killed."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.message.properties import DELAY, START_DELIVER_TIME, TIMER_DELIVER_MS
from mocketmq.relay.judging import RELAY_DELAY_MS, RELAY_REFUSED, RELAY_TOPIC
from tests.support.fork_server import Forked
from tests.support.relays import (
    LATER,
    LOCK_S,
    ORDERS,
    QUEUES,
    User,
    forked_relay,
    ids_of,
    line_of,
    properties_of,
    user_of,
)
from tests.upstream.jars import V4, V5, JarsMissingError, class_path
from tests.upstream.process import HOST, SMALL, Upstream, broker_again, ready, running_upstream

pytestmark = [pytest.mark.interop, pytest.mark.parametrize("version", [V4, V5])]

JAVA = (f"-Drocketmq.broker.rebalance.lockMaxLiveTime={LOCK_S * 1_000}",)
LOCKS = ("--lock-time", f"{LOCK_S}s")
SETTINGS = {**SMALL, "brokerFastFailureEnable": "false"}


@asynccontextmanager
async def upstream(home: Path, version: str) -> AsyncIterator[tuple[Upstream, str, User]]:
    """A RocketMQ with short-lived locks, its name server's address, and a user."""
    try:
        class_path(version)
    except JarsMissingError as error:
        pytest.skip(str(error))
    async with (
        running_upstream(home, version, SETTINGS, java=JAVA) as there,
        user_of(HOST, there.broker_port) as user,
    ):
        yield there, f"{HOST}:{there.namesrv_port}", user


@contextmanager
def killed_at_last(*relays: Forked) -> Iterator[None]:
    """Kill these processes on exit, whatever happens."""
    try:
        yield
    finally:
        for each in relays:
            each.kill()


async def test_messages_are_kept_forwarded_and_refused(version: str, tmp_path: Path) -> None:
    async with upstream(tmp_path / "there", version) as (_, name_server, user):
        relay = await forked_relay(name_server)
        with killed_at_last(relay):
            await line_of(relay, f"serving {QUEUES} partitions")
            bodies = [b"%d" % number for number in range(60)]
            await user.delay(bodies, 1_500)
            due_ms = wall_us() // US_PER_MS + 1_500
            await user.send(b"at", {RELAY_TOPIC: ORDERS, START_DELIVER_TIME: str(due_ms)})
            delays = {DELAY: "1"} if version == V4 else {TIMER_DELIVER_MS: str(due_ms)}
            await user.send(b"delayed twice", {RELAY_TOPIC: ORDERS, RELAY_DELAY_MS: "500"} | delays)
            await user.send(b"bad", {RELAY_TOPIC: "nowhere", RELAY_DELAY_MS: "1"})
            await user.send(b"loop", {RELAY_TOPIC: LATER, RELAY_DELAY_MS: "1"})
            records = await user.received([*bodies, b"at", b"delayed twice"])
            refused = await user.received([b"bad", b"loop"], f"{LATER}-refused")
            relay.terminate()
            assert await relay.wait() == 0
    assert len(records) == 62
    assert all(len(ids) == 1 for ids in ids_of(records).values())
    assert all(record.store_ms >= record.born_ms + 1_500 for record in records if record.body in bodies)
    [at] = [record for record in records if record.body == b"at"]
    assert at.store_ms >= due_ms
    [twice] = [record for record in records if record.body == b"delayed twice"]
    assert twice.store_ms >= (twice.born_ms + 1_000 if version == V4 else due_ms) + 500
    assert not {RELAY_TOPIC, *delays} & properties_of(twice).keys()
    assert [RELAY_REFUSED in properties_of(record) for record in refused] == [True, True]


async def test_killed_relay_is_replaced_by_another(version: str, tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(200)]
    async with upstream(tmp_path / "there", version) as (_, name_server, user):
        first = await forked_relay(name_server, *LOCKS)
        with killed_at_last(first):
            await line_of(first, f"serving {QUEUES} partitions")
            second = await forked_relay(name_server, *LOCKS)
            with killed_at_last(second):
                await line_of(second, f"serving {QUEUES // 2} partitions")
                await user.delay(bodies[:100], 2_000)
                await user.received([bodies[0]])  # the relay is still forwarding the rest
                first.kill()
                await user.delay(bodies[100:], 1_000)
                records = await user.received(bodies)
                await line_of(second, f"serving {QUEUES} partitions")
    assert all(len(ids) == 1 for ids in ids_of(records).values())
    assert all(record.store_ms >= record.born_ms + 1_000 for record in records)


async def test_killed_broker_loses_no_message(version: str, tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(200)]
    home = tmp_path / "there"
    async with upstream(home, version) as (there, name_server, user):
        relay = await forked_relay(name_server, *LOCKS)
        with killed_at_last(relay):
            await line_of(relay, f"serving {QUEUES} partitions")
            await user.delay(bodies, 2_000)
            await user.received([bodies[0]])
            os.kill(there.pids[1], signal.SIGKILL)
            async with broker_again(home, version, JAVA) as again:
                await ready(there.namesrv_port, there.broker_port, [again])
                async with user_of(HOST, there.broker_port) as later:
                    records = await later.received(bodies)
                relay.terminate()
                assert await relay.wait() == 0
    assert all(len(ids) == 1 for ids in ids_of(records).values())
    assert all(record.store_ms >= record.born_ms + 2_000 for record in records)
