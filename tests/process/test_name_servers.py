"""Several name servers in a process: their ports, and what each tells of the brokers."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from mocketmq import BrokerError, Client
from tests.support.command_line import Shell
from tests.support.process import forked_broker
from tests.support.remoting import connected

A, B = "broker-a", "broker-b"
FIRST, SECOND = 1, 2
ROUTE, CLUSTER_INFO, SYSTEM_TOPICS = 105, 106, 304


@pytest.fixture
async def url() -> AsyncIterator[str]:
    options = ("--clock", "manual", "--brokers", "2", "--name-servers", "2")
    async with forked_broker(*options) as process:
        async with Client(process.url) as client:
            await client.create_topic("orders")
        yield process.url


@pytest.fixture
async def client(url: str) -> AsyncIterator[Client]:
    async with Client(url) as client:
        yield client


async def routes(client: Client) -> list[list[str]]:
    """Return the brokers in the topic's route at each name server; none for a server that is gone."""
    return [await brokers_at(door["port"]) for door in (await client.info())["doors"]["name_servers"]]


async def brokers_at(port: int) -> list[str]:
    try:
        async with connected("127.0.0.1", port) as remoting:
            route = await remoting.call(ROUTE, {"topic": "orders"})
            known = json.loads((await remoting.ok(CLUSTER_INFO)).body)["brokerAddrTable"]
            topics = json.loads((await remoting.ok(SYSTEM_TOPICS)).body)["topicList"]
    except ConnectionRefusedError:
        return []
    found = [each["brokerName"] for each in json.loads(route.body)["brokerDatas"]] if route.body else []
    assert found == list(known) == topics[1:]
    return found


async def test_each_name_server_has_a_port(client: Client, url: str) -> None:
    doors = (await client.info())["doors"]
    first, second = doors["name_servers"]
    assert first == doors["namesrv"]
    assert second["port"] == first["port"] + 10
    ports = [each["broker"]["port"] for each in doors["brokers"].values()]
    assert ports[1] == ports[0] + 10
    assert second["address"] in (await Shell(url)("info")).stdout
    assert [each["port"] for each in await client.name_servers()] == [first["port"], second["port"]]
    async with aiohttp.ClientSession() as session, session.get(f"{url}/rocketmq/nsaddr") as answer:
        assert await answer.text() == f"127.0.0.1:{first['port']};127.0.0.1:{second['port']}"


async def test_one_name_server_is_away(client: Client) -> None:
    assert (await client.stop_name_server(SECOND))["state"] == "stopped"
    assert await routes(client) == [[A, B], []]
    await client.start_name_server(SECOND)
    assert await routes(client) == [[A, B], [A, B]]


async def test_one_name_server_leaves_out_a_broker(client: Client) -> None:
    changed = await client.hide_broker(SECOND, B)
    assert (changed["brokers"], changed["hidden"]) == ([A], [B])
    assert await routes(client) == [[A, B], [A]]


async def test_one_name_server_keeps_a_broken_broker(client: Client) -> None:
    await client.keep_broker(FIRST, B)
    await client.shut_down_broker(B)
    assert await routes(client) == [[A, B], [A]]


async def test_a_stale_name_server_sees_nothing_new(client: Client) -> None:
    await client.shut_down_broker(A)
    await client.freeze_name_server(SECOND)
    await client.start_broker(A)
    await client.crash_broker(B)
    await client.advance("2m")
    assert await routes(client) == [[A], [B]]
    told: Any = (await client.correct_name_server(SECOND))["brokers"]
    assert told == [A]
    assert await routes(client) == [[A], [A]]


async def test_a_reset_corrects_all_name_servers(client: Client) -> None:
    await client.stop_name_server(FIRST)
    await client.hide_broker(SECOND, A)
    await client.reset()
    assert await routes(client) == [[A, B], [A, B]]


async def test_a_restored_snapshot_corrects_all_name_servers(client: Client) -> None:
    await client.save_snapshot("start")
    await client.stop_name_server(FIRST)
    await client.hide_broker(SECOND, A)
    await client.restore_snapshot("start")
    assert await routes(client) == [[A, B], [A, B]]


async def test_unknown_name_servers_and_brokers_are_refused(client: Client) -> None:
    for call, words in (
        (client.stop_name_server(3), "name server is 3; allowed: 1 to 2"),
        (client.hide_broker(SECOND, "broker-z"), "'broker-z'; allowed: broker-a or broker-b"),
    ):
        with pytest.raises(BrokerError, match=words) as refused:
            await call
        assert refused.value.status == 404


async def test_the_command_line_shows_and_changes_name_servers(url: str) -> None:
    shell = Shell(url)
    hidden = "name server 2 is running and lists broker-a\n"
    assert (await shell("name-servers", "hide", "2", B)).stdout == hidden
    shown = (await shell("name-servers", "ls")).stdout
    assert "hides broker-b" in shown
    kept = "name server 2 is running and lists broker-a, broker-b\n"
    assert (await shell("name-servers", "keep", "2", B)).stdout == kept
    assert (await shell("name-servers", "freeze", "2")).stdout == kept
    assert (await shell("name-servers", "correct", "2")).stdout == kept
    stopped = "name server 2 is stopped and lists broker-a, broker-b\n"
    assert (await shell("name-servers", "stop", "2")).stdout == stopped
    assert (await shell("name-servers", "start", "2")).stdout == kept
