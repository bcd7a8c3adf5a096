"""If a broker's event loop is blocked, its log says where, and its health check fails."""

import asyncio

import pytest

from mocketmq import Client, UnreachableError
from mocketmq.cli.exit_codes import Exit
from mocketmq.failpoint import ENVIRONMENT
from tests.support.command_line import Shell
from tests.support.process import broker_process


async def receive(url: str) -> None:
    async with Client(url) as client:
        await client.receive("orders", group="g")


@pytest.mark.slow
async def test_the_log_shows_the_blocked_stack_and_the_health_check_fails() -> None:
    async with broker_process(env={ENVIRONMENT: "receive.taken:1=hang"}) as broker:
        shell = Shell(broker.url)
        assert (await shell("healthcheck")).code == Exit.DONE
        assert (await shell("send", "orders", "hi")).code == Exit.DONE
        receiving = asyncio.create_task(receive(broker.url))
        await broker.logs("the event loop has not run for 10 s")
        await broker.logs('pass_point("receive.taken")')
        assert (await shell("healthcheck")).code == Exit.NOT_READY
        broker.kill()
        with pytest.raises(UnreachableError):
            await receiving
