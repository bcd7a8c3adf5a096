"""Brokers over remoting that crash, shut down and start again."""

import asyncio
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mocketmq.broker.registry.brokers import ROUTE_LIFETIME_US
from mocketmq.broker.verification.expectations import Wanted
from mocketmq.broker.verification.message_matcher import MessageMatcher
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.errors import (
    BrokerNotFoundError,
    BrokerStateError,
    StoreUnavailableError,
)
from mocketmq.faults.rule import FaultRule
from tests.doors.remoting.broker_pairs import A, B, Pair, bodies, running_pair, send
from tests.doors.remoting.popping import POP, pop_of
from tests.support.brokers import TOPIC, Refusing
from tests.support.remoting import ClosedError


async def test_a_crash_ends_connections_and_leaves_the_route_for_two_minutes(pair: Pair) -> None:
    waiting = pair.b.ask(POP, pop_of(60_000))
    await pair.broker.broker_lives.crash(B)
    await pair.b.closed()
    with pytest.raises(ClosedError):
        await waiting
    with pytest.raises(ConnectionRefusedError):
        async with pair.remoting.another(pair.port_of_b):
            pass
    await pair.broker.mover.advance(ROUTE_LIFETIME_US - 1)
    assert await pair.names() == [A, B]
    await pair.broker.mover.advance(1)
    assert await pair.names() == [A]
    await send(pair.a, "still served")


async def test_a_crash_answers_no_long_poll_at_the_vip_port(pair: Pair) -> None:
    vip_port = pair.broker.registry.brokers.broker_named(B).vip_port
    assert vip_port
    async with pair.remoting.another(vip_port) as client:
        waiting = client.ask(POP, pop_of(60_000))
        await client.ok(106)
        await pair.broker.broker_lives.crash(B)
        with pytest.raises(ClosedError):
            await waiting


async def test_a_broker_that_is_shut_down_leaves_the_route_at_once(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await pair.broker.broker_lives.shut_down(B)
    assert f"closing connection from {pair.b.address}: port closed: broker-b down" in caplog.messages
    assert await pair.names() == [A]
    await pair.b.closed()


async def test_a_name_server_that_stops_ends_its_connections(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running_pair(name_servers=2) as pair:
        async with pair.remoting.another(pair.remoting.server.namesrv_ports[1]) as client:
            await pair.broker.name_servers.set_stopped(2, is_stopped=True)
            await client.closed()
        closed = f"closing connection from {client.address}: port closed: name server 2 stopped"
        assert closed in caplog.messages


async def test_a_broker_starts_again_on_its_port_with_its_messages(pair: Pair) -> None:
    port = pair.port_of_b
    await send(pair.b, "before")
    await pair.broker.broker_lives.crash(B)
    async with pair.back() as b:
        assert pair.port_of_b == port
        assert await pair.names() == [A, B]
        await send(b, "after")
        assert await bodies(b) == ["before", "after"]


async def test_without_a_broker_there_is_no_route(pair: Pair) -> None:
    for name in (A, B):
        await pair.broker.broker_lives.shut_down(name)
    assert await pair.names() == []


async def test_a_state_allows_some_changes_only(pair: Pair) -> None:
    lives = pair.broker.broker_lives
    with pytest.raises(
        BrokerStateError, match=r"broker-b is running; allowed: crashed or shut-down\. Crash it or"
    ):
        await lives.start(B)
    await lives.crash(B)
    with pytest.raises(BrokerStateError, match="broker-b is crashed; allowed: running"):
        await lives.shut_down(B)
    with pytest.raises(BrokerNotFoundError, match="'broker-c'; allowed: broker-a or broker-b"):
        await lives.crash("broker-c")


async def test_a_start_that_fails_leaves_the_broker_down(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    lives = pair.broker.broker_lives
    await send(pair.b, "held", DELAY="1")
    await lives.crash(B)
    await pair.advance(5)
    condition = pair.broker.registry.brokers.broker_named(B).condition
    async with Refusing(pair.broker, monkeypatch):
        with pytest.raises(StoreUnavailableError):
            await lives.start(B)
    assert pair.broker.registry.brokers.broker_named(B).condition == condition
    assert condition.state == "crashed"
    async with pair.back() as b:
        await pair.advance(0.001)
        assert await bodies(b) == ["held"]


async def test_a_cancelled_start_opens_the_ports(pair: Pair) -> None:
    lives = pair.broker.broker_lives
    await send(pair.b, "held", DELAY="1")
    await lives.crash(B)
    await pair.advance(5)
    await cancelled(lives.start(B))
    with pytest.raises(BrokerStateError):  # the start has ended
        await lives.start(B)
    await pair.advance(0.001)
    async with pair.remoting.another(pair.port_of_b) as b:
        assert await bodies(b) == ["held"]


async def test_a_cancelled_crash_closes_every_port(pair: Pair) -> None:
    registered = pair.broker.registry.brokers.broker_named(B)
    await cancelled(pair.broker.broker_lives.crash(B))
    with pytest.raises(BrokerStateError):  # the crash has ended
        await pair.broker.broker_lives.crash(B)
    assert registered.vip_port
    for port in (registered.port, registered.vip_port):
        with pytest.raises(ConnectionRefusedError):
            async with pair.remoting.another(port):
                pass


async def cancelled(change: Coroutine[Any, Any, object]) -> None:
    """Cancel the caller of a change in its middle, as a client that disconnects does."""
    caller = asyncio.create_task(change)
    for _ in range(3):
        await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller


async def test_a_full_reset_starts_all_brokers(pair: Pair) -> None:
    await pair.broker.broker_lives.crash(B)
    await pair.broker.full_reset.run(None, forget=False)
    assert await pair.names() == [A, B]
    async with pair.remoting.another(pair.port_of_b) as b:
        await send(b, "served")


async def test_a_fault_rule_does_not_open_the_ports_of_a_broker_that_is_down(pair: Pair) -> None:
    await pair.broker.broker_lives.crash(B)
    await pair.broker.outage.update()
    with pytest.raises(ConnectionRefusedError):
        async with pair.remoting.another(pair.port_of_b):
            pass


# Messages of a broker that is down


@pytest.mark.parametrize(
    "delay", [{"DELAY": "3"}, {"__STARTDELIVERTIME": "10000"}], ids=["level", "absolute"]
)
async def test_a_due_message_waits_for_its_broker(pair: Pair, delay: dict[str, str]) -> None:
    now_ms = pair.broker.clock.now_us() // US_PER_MS
    if "__STARTDELIVERTIME" in delay:
        wall_ms = now_ms - pair.broker.clock.from_wall(0) // US_PER_MS
        delay = {"__STARTDELIVERTIME": str(wall_ms + 10_000)}
    for client, name in ((pair.a, A), (pair.b, B)):
        await send(client, name, 0, **delay)
    await pair.broker.broker_lives.crash(B)
    await pair.advance(3600)
    assert await bodies(pair.a) == [A]
    assert pair.broker.held.pending == 1
    async with pair.back() as b:
        await pair.advance(0.001)
        assert await bodies(b) == [B]
        assert pair.broker.held.pending == 0
        await pair.advance(3600)
        assert (await bodies(b), await bodies(pair.a)) == ([B], [A])


async def test_a_message_is_not_early_after_a_short_outage(pair: Pair) -> None:
    await send(pair.b, "later", DELAY="5")  # 1 min
    await pair.broker.broker_lives.crash(B)
    await pair.advance(30)
    async with pair.back() as b:
        await pair.advance(29.999)
        assert await bodies(b) == []
        await pair.advance(0.001)
        assert await bodies(b) == ["later"]


async def test_what_waited_is_delivered_by_the_next_process(tmp_path: Path) -> None:
    data = str(tmp_path)
    async with running_pair(data=data) as pair:
        await send(pair.b, "waits", DELAY="1")
        await pair.broker.broker_lives.crash(B)
        await pair.advance(5)
        assert pair.broker.held.pending == 1
    async with running_pair(data=data) as pair:
        await pair.advance(0.001)
        assert await bodies(pair.b) == ["waits"]


async def test_a_wait_names_the_broker_that_is_down(pair: Pair) -> None:
    await send(pair.b, "late", DELAY="1")
    await pair.broker.broker_lives.shut_down(B)
    await pair.advance(5)
    wanted = Wanted(TOPIC, MessageMatcher(), {"delivered": 1})
    found = await pair.broker.expectations.wait(wanted, 1, 0)
    assert "delayed by level 1, held by broker-b, which is down, since " in found.explanation


async def test_the_ledger_names_the_broker_that_was_down(pair: Pair) -> None:
    await send(pair.b, "late", DELAY="1")
    await pair.broker.broker_lives.shut_down(B)
    await pair.advance(5)
    async with pair.back():
        await pair.advance(0.001)
        rows = await pair.broker.store.database.rows("SELECT fault, due_us, delivered_us FROM deliveries")
    [(fault, due_us, delivered_us)] = rows
    assert fault == "broker-b down"
    assert delivered_us - due_us >= 4 * US_PER_S


async def test_no_fault_rule_has_the_name_of_a_downtime(pair: Pair) -> None:
    name = pair.broker.registry.brokers.broker_named(B).downtime
    with pytest.raises(msgspec.ValidationError, match=r"a-zA-Z0-9.* at `\$.name`"):
        msgspec.convert({"do": "hold", "name": name}, FaultRule)


async def test_a_message_held_by_a_rule_waits_for_its_broker_too(pair: Pair) -> None:
    await pair.broker.faults.add_rule(FaultRule(do="deliver-late", by="10s"))
    await send(pair.b, "late", DELAY="1")
    await pair.advance(1)
    await pair.broker.broker_lives.crash(B)
    await pair.advance(60)
    async with pair.back() as b:
        await pair.advance(0.001)
        assert await bodies(b) == ["late"]
