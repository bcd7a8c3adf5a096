"""The programs of docs/rocketmq.md for Python and Node do what the page says."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.node_sdk import FOLDER
from tests.clients.remoting.conftest import RemotingBroker, running_remoting_broker
from tests.clients.remoting.driver import WAIT_S
from tests.clients.remoting.snippets import PAGE, running_program, snippet


@pytest_asyncio.fixture(loop_scope="session")
async def broker() -> AsyncIterator[RemotingBroker]:
    """A broker whose topic `orders` has no other users."""
    async with running_remoting_broker() as broker:
        yield broker


@pytest.mark.asyncio(loop_scope="session")
async def test_the_program(client: str, broker: RemotingBroker, home: Path, tmp_path: Path) -> None:
    program = tmp_path / f"program-{client}"
    program.write_text(snippet(client, broker.name_server, broker.url))
    interpreter = {"python": sys.executable, "node": "node"}[client]
    env = {"NODE_PATH": str(FOLDER / "node_modules")}
    async with running_program(interpreter, program, home=home, env=env) as output:
        async with asyncio.timeout(WAIT_S):
            assert len((await output.readline()).strip()) == 32
            await broker.pending("orders")
            await broker.control.advance("30m")
            assert await output.readline() == b"order 7 was not paid\n"


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(("options", "handed"), [((), 1), (("--max-pull-messages", "1"), 4)])
async def test_the_program_that_retries(
    python_client: tuple[str, ...], home: Path, tmp_path: Path, options: tuple[str, ...], handed: int
) -> None:
    """A failed message fails all messages of its pull, even those not passed to the listener."""
    async with running_remoting_broker(*options) as broker:
        await broker.control.put_topic("orders", read_queues=1, write_queues=1)
        for number in range(4):
            await broker.control.send("orders", f"order {number}")
        program = tmp_path / "program"
        program.write_text(snippet("python_retry", broker.name_server, broker.url))
        async with running_program(python_client[0], program, home=home) as output:
            async with asyncio.timeout(WAIT_S):
                for number in range(handed):
                    assert await output.readline() == f"order {number} 0\n".encode()
                await broker.pending("%RETRY%GID_billing", 4)
                await broker.control.advance("10s")
                for number in range(4):
                    assert await output.readline() == f"order {number} 1\n".encode()


@pytest.mark.parametrize("link", re.findall(r"\]\((?!http)([^)#]+)", PAGE.read_text()))
def test_links_lead_somewhere(link: str) -> None:
    assert (PAGE.parent / link).exists()
