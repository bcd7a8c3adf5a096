"""Injected faults in gRPC requests."""

import asyncio

import pytest
from aiohttp import ClientSession
from grpclib.exceptions import StreamTerminatedError

from tests.support.api import Api
from tests.support.grpc import bodies, running_grpc


@pytest.mark.parametrize(
    ("error", "code", "stored"),
    [("SYSTEM_BUSY", 42_900, []), ("FLUSH_DISK_TIMEOUT", 50_401, ["m"]), ("NO_PERMISSION", 40_300, [])],
)
async def test_refused_send_answers_in_grpc_form(error: str, code: int, stored: list[str]) -> None:
    async with running_grpc() as (emulator, client), ClientSession() as session:
        rule = {"do": "refuse", "error": error, "operation": "send", "door": "grpc", "next": 1}
        await Api(emulator, session).ok("POST", "/v1/faults", rule)
        assert (await client.send(client.message("m"))).status.code == code
        assert bodies(await client.receive()) == stored


async def test_refused_receive_answers_with_all_its_frames() -> None:
    async with running_grpc() as (emulator, client), ClientSession() as session:
        rule = {"do": "refuse", "error": "SYSTEM_BUSY", "operation": "ReceiveMessage", "topic": "orders"}
        await Api(emulator, session).ok("POST", "/v1/faults", rule)
        status, messages = await client.try_receive("billing", "orders")
        assert (status.code, messages) == (42_900, [])


async def test_a_connection_is_closed_without_an_answer() -> None:
    async with running_grpc() as (emulator, client), ClientSession() as session:
        api = Api(emulator, session)
        await api.ok("POST", "/v1/faults", {"do": "close", "operation": "send", "next": 1})
        with pytest.raises((StreamTerminatedError, ConnectionError, asyncio.TimeoutError)):
            await client.send(client.message("m"))
        assert (await client.send(client.message("m"))).status.code == 20_000
