"""``kill -9`` around pops: popped messages have one receiver, acknowledged messages never return."""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from mocketmq import Client
from mocketmq.failpoint import ENVIRONMENT
from tests.doors.remoting.popping import INVISIBLE_MS, ack, change, pop
from tests.support.brokers import GROUP, TOPIC
from tests.support.process import BrokerProcess, forked_broker
from tests.support.remoting import ClosedError, RemotingClient, connected


@asynccontextmanager
async def broker(
    data: Path, failpoint: str = ""
) -> AsyncIterator[tuple[BrokerProcess, RemotingClient, Client]]:
    """Run a broker on the store that may die at a failpoint, a remoting client and a JSON API client."""
    settings = ("--data", str(data), "--clock", "manual")
    async with forked_broker(*settings, env={ENVIRONMENT: failpoint}) as process:
        host, _ = process.name_server
        async with connected(host, process.broker_port) as client, Client(process.url) as control:
            yield process, client, control


async def killed(process: BrokerProcess) -> None:
    assert await process.wait() == -signal.SIGKILL, process.stderr


async def test_killed_before_the_answer_to_a_pop(tmp_path: Path) -> None:
    async with broker(tmp_path, "receive.taken:1") as (process, client, control):
        await control.send(TOPIC, "a")
        with suppress(ClosedError):
            await pop(client)
        await killed(process)
    async with broker(tmp_path) as (_, client, control):
        assert await pop(client) == []
        await control.advance(f"{INVISIBLE_MS}ms")
        assert [(one.body, one.times) for one in await pop(client)] == [("a", 1)]


async def test_killed_between_a_pop_and_its_acknowledgement(tmp_path: Path) -> None:
    async with broker(tmp_path) as (process, client, control):
        for body in ("a", "b"):
            await control.send(TOPIC, body, queue_id=0)
        first, second = await pop(client)
        second_handle = await change(client, second.handle, INVISIBLE_MS)
        process.kill()
        await process.wait()
    async with broker(tmp_path) as (_, client, control):
        assert await pop(client) == []
        assert await ack(client, second.handle) == 208
        assert [await ack(client, handle) for handle in (first.handle, second_handle)] == [0, 0]
        assert (await control.group(GROUP))["lag"] == 0


async def test_killed_before_the_answer_to_an_acknowledgement(tmp_path: Path) -> None:
    async with broker(tmp_path, "receive.settled:1") as (process, client, control):
        await control.send(TOPIC, "a")
        [one] = await pop(client)
        with suppress(ClosedError):
            await ack(client, one.handle)
        await killed(process)
    async with broker(tmp_path) as (_, client, control):
        assert await ack(client, one.handle) == 208
        await control.advance("1h")
        assert await pop(client) == []


async def test_killed_before_the_answer_to_a_change_of_the_invisible_time(tmp_path: Path) -> None:
    async with broker(tmp_path, "receive.settled:1") as (process, client, control):
        await control.send(TOPIC, "a")
        [one] = await pop(client)
        with suppress(ClosedError):
            await change(client, one.handle, 5_000)
        await killed(process)
    async with broker(tmp_path) as (_, client, control):
        assert await ack(client, one.handle) == 208
        await control.advance("4999ms")
        assert await pop(client) == []
        await control.advance("1ms")
        assert [(one.body, one.times) for one in await pop(client)] == [("a", 1)]


async def test_killed_while_a_pop_is_written(tmp_path: Path) -> None:
    """The pop is undone."""
    async with broker(tmp_path) as (_, _, control):
        sent = await control.send(TOPIC, "a")
        await control.put_group(GROUP)
        await control.message(sent["message_id"])  # completes the key index, which would write beside the pop
    async with broker(tmp_path, "writer.written:2") as (process, client, _):  # the start writes once
        with pytest.raises(ClosedError):
            await pop(client)
        await killed(process)
    async with broker(tmp_path) as (_, client, _):
        assert [(one.body, one.times) for one in await pop(client)] == [("a", 0)]
