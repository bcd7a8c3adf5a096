"""Simulated outages of name server and broker: closed ports, over real sockets."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mocketmq import Client
from mocketmq.open_ports import OpenPorts
from mocketmq.settings_sources import load_settings
from tests.doors.remoting.gates import until
from tests.doors.test_faults import running_doors
from tests.support.brokers import TOPIC
from tests.support.command_line import Shell
from tests.support.network import quiet_port
from tests.support.patience import PATIENCE_S
from tests.support.process import forked_broker
from tests.support.remoting import connected


async def listening(*ports: int) -> list[bool]:
    """Return the ports to which a client can connect."""
    return [await is_open(port) for port in ports]


async def is_open(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)  # may connect to itself, though rarely
        if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
            writer.close()
            return False
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


def ports(doors: OpenPorts) -> tuple[int, ...]:
    """Return the port of the name server, then the broker's port of each protocol."""
    found = doors.namesrv, doors.broker, doors.vip, doors.grpc, doors.aliyun
    return tuple(door.port for door in found if door)


async def test_the_brokers_ports_stay_closed_until_the_rule_ends() -> None:
    async with running_doors(aliyun_port=0) as broker:
        emulator = broker.api.emulator
        shut = ports(emulator.doors)
        assert await listening(*shut) == [True] * 5
        fault = await broker.add("broker-away")
        await broker.client.closed()
        assert await listening(*shut) == [True, False, False, False, False]
        assert (fault["state"], fault["fired"]) == ("active", 1)
        [event] = (await broker.api.ok("GET", "/v1/events"))["events"]
        assert (event["kind"], event["text"]) == ("fault", "fault fault-1: broker-away for every request")
        assert await broker.send("http") == "closed"
        assert await broker.send("aliyun") == "closed"
        assert (await broker.api.ok("GET", "/v1/faults/fault-1"))["fired"] > 2
        async with connected("127.0.0.1", shut[0]) as name_server:
            assert (await name_server.ok(105, {"topic": TOPIC})).body  # it does not know of the outage yet
        await broker.api.ok("DELETE", "/v1/faults/fault-1")
        assert await listening(*shut) == [True] * 5
        assert await broker.send("http") == "201"
        async with connected("127.0.0.1", shut[1]) as client:
            await client.ok(105, {"topic": TOPIC})


async def test_name_server_outage_spares_the_broker() -> None:
    async with running_doors() as broker:
        shut = ports(broker.api.emulator.doors)
        async with connected("127.0.0.1", shut[0]) as name_server:
            await broker.add("name-server-away")
            await name_server.closed()
        assert await listening(*shut) == [False, True, True, True]
        assert [await broker.send(door) for door in ("remoting", "http", "aliyun")] == ["0", "201", "201"]
        await broker.api.ok("POST", "/v1/reset")
        assert await listening(*shut) == [True] * 4


@pytest.mark.parametrize(
    ("door", "expected", "http", "aliyun"),
    [
        ("remoting", [True, False, False, True, True], "201", "201"),
        ("grpc", [True, True, True, False, True], "201", "201"),
        ("aliyun", [True, True, True, True, False], "201", "closed"),
        ("http", [True, True, True, True, True], "closed", "201"),
    ],
)
async def test_outage_closes_one_door(door: str, expected: list[bool], http: str, aliyun: str) -> None:
    async with running_doors(aliyun_port=0) as broker:
        await broker.add("broker-away", door=door)
        assert await listening(*ports(broker.api.emulator.doors)) == expected
        assert (await broker.send("http"), await broker.send("aliyun")) == (http, aliyun)


async def test_outages_begin_and_end_by_the_clock_of_the_broker() -> None:
    async with running_doors() as broker:
        [port] = ports(broker.api.emulator.doors)[1:2]
        now_ms = (await broker.api.ok("GET", "/v1/clock"))["now_ms"]
        fault = await broker.add("broker-away", from_ms=now_ms + 10_000, lasts="5s", door="remoting")
        assert (fault["state"], fault["fired"]) == ("waiting", 0)
        seen = []
        for _ in range(4):
            seen.append(await is_open(port))
            await broker.api.ok("POST", "/v1/clock/advance", {"by": "5s"})
        assert seen == [True, True, False, True]
        fault = await broker.api.ok("GET", "/v1/faults/fault-1")
        assert (fault["state"], fault["fired"]) == ("over", 1)


async def test_clock_move_passes_an_outage() -> None:
    async with running_doors() as broker:
        await broker.add("broker-away", lasts="1h")
        await broker.api.ok("POST", "/v1/clock/advance", {"by": "2h"})
        assert await listening(*ports(broker.api.emulator.doors)) == [True] * 4
        assert (await broker.api.ok("GET", "/v1/faults/fault-1"))["state"] == "over"


async def test_an_outage_ends_after_some_real_time() -> None:
    async with running_doors() as broker:
        [port] = ports(broker.api.emulator.doors)[1:2]
        await broker.add("broker-away", back_after="uniform(20ms, 40ms)", seed=3)
        await broker.client.closed()
        async with asyncio.timeout(PATIENCE_S):
            while not await is_open(port):  # only a client can see that the port is open
                pass
        assert (await broker.api.ok("GET", "/v1/faults/fault-1"))["state"] == "over"
        assert await broker.send("http") == "201"


async def test_outage_ends_waiting_receives() -> None:
    async with running_doors() as broker:
        waiting = asyncio.create_task(broker.api.receive(wait_ms=20_000))
        await until(lambda: broker.broker.polls.count)
        await broker.add("broker-away")
        assert await waiting == []


async def test_outage_survives_a_restart(tmp_path: Path) -> None:
    kept: dict[str, Any] = {"data": str(tmp_path), "namesrv_port": quiet_port(), "grpc_port": quiet_port()}
    kept["broker_port"] = quiet_port(-2)
    async with running_doors(**kept) as broker:
        shut = ports(broker.api.emulator.doors)
        await broker.add("broker-away", name="gone", lasts="1h")
        await broker.add("name-server-away", name="lost", back_after="1h")
    async with AsyncExitStack() as stack:
        with pytest.raises(ConnectionRefusedError):  # running_doors connects a client
            await stack.enter_async_context(running_doors(**kept))
    async with forked_broker(*options(kept)) as process, Client(process.url) as client:
        assert await listening(*shut) == [False] * 4
        assert [(one["state"], one["fired"]) for one in await client.faults()] == [("active", 1)] * 2
        await client.advance("1h")
        assert await listening(*shut) == [False, True, True, True]
        await client.reset()
        assert await listening(*shut) == [True] * 4
        async with connected("127.0.0.1", shut[1]) as remoting:
            await remoting.ok(105, {"topic": TOPIC})


def options(settings: dict[str, Any]) -> list[str]:
    given = settings | {"clock": "manual"}
    return [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]


async def test_outage_is_set_by_settings_file_and_command_line(tmp_path: Path) -> None:
    path = tmp_path / "mocketmq.toml"
    path.write_text('[[faults]]\ndo = "name-server-away"\nname = "lost"\nlasts = "5m"\n')
    async with running_doors(faults=load_settings({}, {}, path).faults) as broker:
        shell, shut = Shell(broker.api.emulator.url), ports(broker.api.emulator.doors)
        assert await listening(*shut) == [False, True, True, True]
        assert "name-server-away" in (await shell("faults", "ls")).stdout
        added = await shell.json("faults", "add", "broker-away", "door=grpc", "lasts=1h")
        assert added["state"] == "active"
        assert await listening(*shut) == [False, True, True, False]
        await shell("faults", "rm", "--all")
        assert await listening(*shut) == [True] * 4


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({"do": "broker-away", "next": 1}, "next"),
        ({"do": "broker-away", "topic": "orders"}, "topic"),
        ({"do": "broker-away", "door": "mqtt"}, "door"),
        ({"do": "broker-away", "back_after": "soon"}, "back_after"),
        ({"do": "name-server-away", "door": "grpc"}, "door"),
        ({"do": "close", "back_after": "1s"}, "back_after"),
    ],
)
async def test_an_impossible_outage_is_refused(rule: dict[str, Any], field: str) -> None:
    async with running_doors() as broker:
        assert (await broker.api.refused(400, "POST", "/v1/faults", rule))["field"] == field


async def test_name_server_outage_needs_remoting() -> None:
    async with forked_broker("--no-remoting") as process, aiohttp.ClientSession() as session:
        rule = {"do": "name-server-away"}
        async with session.post(f"{process.url}/v1/faults", json=rule) as response:
            assert response.status == 400
            assert "name-server-away needs remoting" in await response.text()
