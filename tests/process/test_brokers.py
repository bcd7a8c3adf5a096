"""Several brokers in a process: ports, the command line, the API, and a crash with a moved clock."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mocketmq import BrokerError, Client
from tests.support.command_line import Shell
from tests.support.process import forked_broker
from tests.support.remoting import connected

A, B = "broker-a", "broker-b"


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with forked_broker("--clock", "manual", "--brokers", "2") as process:
        yield process.url


async def states(client: Client) -> list[tuple[str, str, bool]]:
    return [(each["name"], each["state"], each["in_routes"]) for each in await client.brokers()]


async def test_ports_of_each_broker_are_shown_and_open(url: str) -> None:
    async with Client(url) as client:
        doors = (await client.info())["doors"]
        brokers = doors["brokers"]
        assert list(brokers) == [A, B]
        assert brokers[A]["broker"] == doors["broker"]
        ports = {port["port"] for each in brokers.values() for port in (each["broker"], each["vip"])}
        assert len(ports) == 4
        for port in ports:
            async with connected("127.0.0.1", port) as remoting:
                await remoting.ok(106)
        assert [each["port"] for each in await client.brokers()] == [
            brokers[name]["broker"]["port"] for name in (A, B)
        ]
    shown = (await Shell(url)("info")).stdout
    assert brokers[B]["broker"]["address"] in shown


async def test_lives_of_a_broker_by_api_and_clock(url: str) -> None:
    async with Client(url) as client:
        await client.create_topic("orders")
        crashed = await client.crash_broker(B)
        assert crashed["in_routes_until_ms"] == (await client.clock())["now_ms"] + 120_000
        assert await states(client) == [(A, "running", True), (B, "crashed", True)]
        await client.advance("2m")
        assert await states(client) == [(A, "running", True), (B, "crashed", False)]
        assert (await client.start_broker(B))["state"] == "running"
        await client.shut_down_broker(A)
        assert await states(client) == [(A, "shut-down", False), (B, "running", True)]
        for call, status in ((client.crash_broker(A), 409), (client.crash_broker("broker-z"), 404)):
            with pytest.raises(BrokerError) as refused:
                await call
            assert refused.value.status == status
        await client.reset()
        assert await states(client) == [(A, "running", True), (B, "running", True)]


async def test_conditions_of_a_broker_by_api(url: str) -> None:
    async with Client(url) as client:
        cut = await client.cut_off_broker(B, "name-servers")
        assert cut["in_routes_until_ms"] == (await client.clock())["now_ms"] + 120_000
        assert (await client.cut_off_broker(B, "clients"))["cut_off_from"] == ["clients", "name-servers"]
        assert (await client.reconnect_broker(B))["cut_off_from"] == []
        assert (await client.set_broker_read_only(B))["read_only"] is True
        assert (await client.set_broker_read_only(B, read_only=False))["read_only"] is False


async def test_due_messages_wait_for_their_broker(url: str) -> None:
    async with Client(url) as client:
        await client.create_topic("orders")
        for queue_id in range(4):
            await client.send("orders", f"m{queue_id}", delay="10s", queue_id=queue_id)
        await client.crash_broker(B)
        await client.advance("1m")
        held = {each["name"]: each["held"] for each in await client.brokers()}
        assert held == {A: 0, B: 2}
        assert await received(client) == ["m0", "m2"]
        await client.start_broker(B)
        await client.advance("1ms")
        assert await received(client) == ["m1", "m3"]


async def test_a_crash_loses_what_it_is_told_to(url: str) -> None:
    async with Client(url) as client:
        await client.create_topic("orders")
        for loses, lost in (("nothing", 0), (None, 0), ("200ms", 1)):
            sent = await client.send("orders", "m", queue_id=1)
            assert (await client.crash_broker(B, loses=loses))["lost"] == lost
            await client.start_broker(B)
            await client.advance("1s")
        message = await client.message(sent["message_id"])
        assert (message["state"], message["life"][-1]["kind"]) == ("lost", "lost")
        with pytest.raises(BrokerError, match="loses is '2h'; allowed: nothing, unreplicated, or a duration"):
            await client.crash_broker(B, loses="2h")
        await client.send("orders", "m", queue_id=1)
    crashed = await Shell(url)("brokers", "crash", B, "--loses", "200ms")
    assert crashed.stdout == "broker-b is crashed, in routes; messages lost: 1\n"


async def test_the_setting_says_what_each_crash_loses() -> None:
    options = ("--clock", "manual", "--brokers", "2", "--crash-loses", "200ms")
    async with forked_broker(*options) as process, Client(process.url) as client:
        await client.create_topic("orders")
        await client.send("orders", "m", queue_id=1)
        assert (await client.crash_broker(B))["lost"] == 1


async def test_a_slave_is_promoted_by_api_and_command_line() -> None:
    async with forked_broker("--clock", "manual", "--slaves", "1") as process, Client(process.url) as client:
        [before] = await client.brokers()
        assert (before["slave_state"], before["promoted"]) == ("running", False)
        await client.crash_broker(A)
        [promoted, back] = [await client.promote_slave(A), await client.start_broker(A)]
        assert (promoted["lost"], promoted["slave_state"]) == (0, "down")
        for state in (promoted, back):
            assert (state["port"], state["slave_port"]) == (before["slave_port"], before["port"])
            assert (state["state"], state["promoted"]) == ("running", True)
        await client.add_fault("replicate-late", by="5s")
        await client.send("orders", "lost")
        shell = Shell(process.url)
        shown = (await shell("brokers", "promote", A)).stdout
        assert shown == "broker-a is running, in routes; messages lost: 1\n"
        await client.cut_off_broker(A, "clients")
        shown = (await shell("brokers", "promote", A)).stdout
        assert shown == "broker-a is running, slave promoted, slave down, in routes\n"
        refused = await shell("brokers", "promote", A)
        assert (refused.code, "the slave of broker-a is down" in refused.stderr) == (1, True)


async def received(client: Client) -> list[str]:
    found: list[Any] = await client.receive("orders", group="billing", max_messages=16)
    if found:
        await client.acknowledge("billing", found)
    return sorted(one["body"] for one in found)


async def test_the_command_line_shows_and_changes_brokers(url: str) -> None:
    shell = Shell(url)
    assert (await shell("brokers", "crash", B)).stdout == "broker-b is crashed, in routes\n"
    shown = (await shell("brokers", "ls")).stdout
    assert [line.split()[:3] for line in shown.splitlines() if "broker-" in line] == [
        [A, "running", "yes"],
        [B, "crashed", "yes"],
    ]
    assert (await shell("brokers", "start", B)).stdout == "broker-b is running, in routes\n"
    assert (await shell("brokers", "shutdown", B)).stdout == "broker-b is shut-down, not in routes\n"
    cut = "broker-a is running, cut off from clients, in routes\n"
    assert (await shell("brokers", "cut-off", A, "clients")).stdout == cut
    assert (await shell("brokers", "reconnect", A)).stdout == "broker-a is running, in routes\n"
    assert (await shell("brokers", "read-only", A)).stdout == "broker-a is running, read-only, in routes\n"
    assert (await shell("brokers", "writable", A)).stdout == "broker-a is running, in routes\n"
    refused = await shell("brokers", "shutdown", B)
    assert (refused.code, "broker-b is shut-down; allowed: running" in refused.stderr) == (1, True)
