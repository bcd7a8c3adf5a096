"""The programs of docs/rocketmq.md for Java do what the page says."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.java.building import java_command, patient
from tests.clients.remoting.conftest import RemotingBroker, running_remoting_broker
from tests.clients.remoting.driver import WAIT_S
from tests.clients.remoting.snippets import running_program, snippet

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(loop_scope="session")
async def broker() -> AsyncIterator[RemotingBroker]:
    """A broker whose topic `orders` has no other users."""
    async with running_remoting_broker() as broker:
        yield broker


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    ("client", "name"), [("java-4.9", "java"), ("java-5.5", "java"), ("ons-java", "ons")]
)
async def test_the_program(
    broker: RemotingBroker, home: Path, tmp_path: Path, client: str, name: str
) -> None:
    program = tmp_path / "Orders.java"
    program.write_text(patient(snippet(name, broker.name_server, broker.url)))
    async with running_program(*java_command(client, home), program, home=home) as output:
        async with asyncio.timeout(WAIT_S):
            assert re.fullmatch(rb"[0-9A-F]{32,}\n", await output.readline())  # longer with IPv6
            [due_ms] = await broker.pending("orders")
            await broker.control.move_to(due_ms)
            assert await output.readline() == b"order 7 was not paid\n"
