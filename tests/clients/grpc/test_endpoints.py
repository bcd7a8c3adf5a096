"""What the Python SDK does when each broker has an endpoint, and one of them goes away or is new."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mocketmq import Client
from mocketmq.app import running_emulator
from mocketmq.clock import US_PER_S
from mocketmq.settings import Settings
from tests.clients.grpc.programs import SDKS, RunningProgram, running
from tests.clients.grpc.versions import FOLDER
from tests.support.brokers import FREE_PORTS
from tests.support.grpc import touch

A, B = "broker-a", "broker-b"


class Application:
    """The running program, and what it has printed."""

    def __init__(self, program: RunningProgram) -> None:
        self._program = program
        self.lines: set[str] = set()

    async def send(self, *bodies: str) -> None:
        for body in bodies:
            self._program.stdin.write(f"{body}\n".encode())
            await self._program.stdin.drain()

    async def until(self, wanted: Iterable[str]) -> None:
        """Read lines until the program has printed the wanted ones."""
        while not self.lines.issuperset(wanted):
            line = await self._program.line()
            assert line, f"the program has ended after {sorted(self.lines)}"
            self.lines.add(line)


@asynccontextmanager
async def application(home: Path, *names: str) -> AsyncIterator[tuple[Client, Application]]:
    """Run two brokers with an endpoint each, and the program at the first. These have the topic."""
    program = await asyncio.to_thread(SDKS["python-grpc"], FOLDER / "python" / "endpoints.py", home)
    settings = Settings(
        **{**FREE_PORTS, "data": ":memory:", "max_long_poll_us": US_PER_S},
        brokers=2,
        proxy_mode="local",
    )
    async with running_emulator(settings) as emulator, Client(emulator.url) as control:
        await control.create_topic("orders", queues=1, brokers=names)
        assert emulator.grpc_address
        await touch(emulator.grpc_address)
        async with running(program, home, emulator.grpc_address) as started:
            app = Application(started)
            await app.until(["ready"])
            yield control, app


@pytest.mark.interop
async def test_a_client_goes_on_at_the_endpoint_that_is_left(tmp_path: Path) -> None:
    async with application(tmp_path, A, B) as (control, app):
        for step, bodies in (("first", "abcd"), ("crashed", "efgh"), ("back", "ijkl")):
            if step == "crashed":
                await control.crash_broker(B)
            elif step == "back":
                await control.start_broker(B)
            await app.send(*bodies)
            await app.until(f"{what} {body}" for body in bodies for what in ("sent", "received"))
        assert not [line for line in app.lines if line.startswith("failed")]


@pytest.mark.interop
async def test_a_running_consumer_finds_an_endpoint_that_is_new_in_routes(tmp_path: Path) -> None:
    async with application(tmp_path, A) as (control, app):
        await app.send("first")
        await app.until(["sent first", "received first"])
        await control.create_topic("orders", queues=1, brokers=[A, B])
        await control.send("orders", "at the new broker", queue_id=1)
        await app.until(["received at the new broker"])
        await control.create_topic("orders", queues=1, brokers=[B])
        await control.send("orders", "at the only broker")
        await app.until(["received at the only broker"])
