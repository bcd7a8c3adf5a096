"""Clients that are told to reconnect, that announce their end, and whose settings change while they run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession

from mocketmq.app import Emulator
from mocketmq.clock import US_PER_S
from mocketmq.grpc_proxy import clients
from tests.doors.remoting.consuming import join
from tests.support.api import Api
from tests.support.command_line import Shell
from tests.support.grpc import GrpcClient, Telemetry, grpc_client, running_grpc
from tests.support.patience import PATIENCE_S
from tests.support.remoting import connected

ID = "host@1@0@abc"
RECONNECT = f"/v1/clients/{ID}/reconnect"


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Emulator, GrpcClient, Api]]:
    async with running_grpc() as (emulator, client), ClientSession() as session:
        yield emulator, client, Api(emulator, session)


async def is_told_to_reconnect(telemetry: Telemetry) -> bool:
    """Return whether the broker's next command is to reconnect."""
    told = await telemetry.command()
    return bool(told.WhichOneof("command") == "reconnect_endpoints_command")


async def held_when_told_to_reconnect(client: GrpcClient, api: Api, telemetry: Telemetry) -> Any:
    """Return a message that the consumer has not acknowledged when it is told to reconnect."""
    await client.send(client.message("held"))
    await telemetry.consume()
    [held] = await client.receive(auto_renew=True)
    await api.ok("POST", RECONNECT)
    return held


async def no_client_is_listed(api: Api) -> None:
    """Wait until the broker has noticed that all streams have ended."""
    async with asyncio.timeout(PATIENCE_S):
        while (await api.ok("GET", "/v1/clients"))["clients"]:
            pass


async def test_a_client_is_told_to_reconnect_on_each_of_its_streams() -> None:
    async with running() as (_, client, api):
        assert "is not connected" in (await api.refused(404, "POST", RECONNECT))["detail"]
        async with client.telemetry() as one, client.telemetry() as other:
            await one.consume()
            await other.produce("orders")
            assert await api.ok("POST", RECONNECT) == {"connections": 2}
            assert await is_told_to_reconnect(one)
            assert await is_told_to_reconnect(other)


async def test_remoting_clients_cannot_be_told_to_reconnect() -> None:
    async with running() as (emulator, _, api):
        assert emulator.remoting
        async with connected("127.0.0.1", emulator.remoting.broker_port) as client:
            await join(client)
            refusal = await api.refused(404, "POST", "/v1/clients/one/reconnect")
            assert "only clients over gRPC can be told to reconnect" in refusal["detail"]


async def test_a_reconnecting_consumer_keeps_its_messages() -> None:
    async with running() as (emulator, client, api), grpc_client(client.port, "other@1") as other:
        async with client.telemetry() as telemetry:
            held = await held_when_told_to_reconnect(client, api, telemetry)
            assert await is_told_to_reconnect(telemetry)
        await no_client_is_listed(api)
        await emulator.broker.mover.advance(2 * US_PER_S)
        async with client.telemetry() as telemetry:
            await telemetry.consume()
            await emulator.broker.mover.advance(600 * US_PER_S)
            assert await other.receive() == []
            assert (await client.ack(held)).status.code == 20_000


async def test_messages_of_a_client_that_does_not_come_back_return_when_their_time_ends() -> None:
    async with running() as (emulator, client, api), grpc_client(client.port, "other@1") as other:
        async with client.telemetry() as telemetry:
            await held_when_told_to_reconnect(client, api, telemetry)
        await no_client_is_listed(api)
        await emulator.broker.mover.advance(59 * US_PER_S)
        assert await other.receive() == []
        await emulator.broker.mover.advance(1 * US_PER_S)
        assert [one.body for one in await other.receive()] == [b"held"]


async def test_a_client_that_ignores_the_command_loses_its_messages_when_it_disconnects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "RECONNECT_US", 0)
    async with running() as (emulator, client, api), grpc_client(client.port, "other@1") as other:
        async with client.telemetry() as telemetry:
            await held_when_told_to_reconnect(client, api, telemetry)
        await no_client_is_listed(api)
        for _ in range(50):  # fewer seconds than its messages are invisible
            await emulator.broker.mover.advance(1 * US_PER_S)
            if got := await other.receive():
                break
        assert [one.body for one in got] == [b"held"]


async def test_a_client_that_announces_its_end_is_no_longer_listed() -> None:
    async with running() as (_, client, api), client.telemetry() as telemetry:
        await telemetry.consume()
        assert len((await api.ok("GET", "/v1/clients"))["clients"]) == 1
        await client.call("NotifyClientTermination", group={"name": "billing"})
        assert (await api.ok("GET", "/v1/clients"))["clients"] == []
        await api.refused(404, "POST", RECONNECT)
        await telemetry.consume()
        assert len((await api.ok("GET", "/v1/clients"))["clients"]) == 1


async def test_a_producer_that_announces_its_end_is_asked_about_no_half_message() -> None:
    async with (
        running() as (emulator, client, _),
        grpc_client(client.port, "other@1") as other,
        client.telemetry() as leaving,
        other.telemetry() as staying,
    ):
        await leaving.produce("orders")
        await staying.produce("orders")
        await client.call("NotifyClientTermination")
        registered = emulator.broker.registry.clients
        asked = {registered.next_producer("orders") for _ in range(4)}
        assert [registered.id_at(channel) for channel in asked if channel] == ["other@1"]


async def test_changed_settings_apply_at_once_and_clients_learn_them_when_they_send_theirs() -> None:
    async with running() as (_, client, api), client.telemetry() as telemetry:
        settings = (await telemetry.consume()).settings
        assert (settings.backoff_policy.max_attempts, settings.subscription.fifo) == (17, False)
        await api.ok("PUT", "/v1/groups/billing", {"max_retries": 2, "fifo": True})
        await api.ok("POST", RECONNECT)
        assert await is_told_to_reconnect(telemetry)  # no settings were sent before
        assigned = await client.call("QueryAssignment", topic={"name": "orders"}, group={"name": "billing"})
        assert len(assigned.assignments) == 4
        settings = (await telemetry.consume()).settings
        assert (settings.backoff_policy.max_attempts, settings.subscription.fifo) == (3, True)


async def test_the_command_line_tells_a_client_to_reconnect() -> None:
    async with running() as (emulator, client, _), client.telemetry() as telemetry:
        shell = Shell(emulator.url)
        await telemetry.produce("orders")
        assert await shell("client", ID, "--reconnect") == (0, "told to reconnect; connections: 1\n", "")
        assert await is_told_to_reconnect(telemetry)
        for options in (), ("--reconnect", "--group", "billing"), ("--reconnect", "--consume", "x"):
            refused = await shell("client", ID, *options)
            assert refused.code == 2
            assert "--reconnect" in refused.stderr
