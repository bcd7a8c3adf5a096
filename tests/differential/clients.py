"""Programs of unmodified gRPC clients before a proxy, which record what they send."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mocketmq.connections.certificate import certificate_of
from mocketmq.settings import Settings
from tests.clients.grpc.programs import Program, RunningProgram, running
from tests.doors.grpc.recorded import Recorded
from tests.support.grpc_pass_through import passing_through
from tests.upstream.process import HOST

WITH_TLS = frozenset(("go-grpc",))
"""Clients that use TLS unless an environment variable forbids it."""


@asynccontextmanager
async def playing(
    client: str, program: Program, home: Path, grpc_port: int, *arguments: str
) -> AsyncIterator[tuple[RunningProgram, list[Recorded]]]:
    """Run a client's program on a proxy. Yields it, and what it sends."""
    tls = await certificate_of(Settings(data=":memory:")).context() if client in WITH_TLS else None
    async with (
        passing_through(grpc_port, tls) as between,
        running(program, home, f"{HOST}:{between.port}", *arguments) as application,
    ):
        yield application, between.sent


def names_of(client: str, *names: str) -> list[str]:
    """Return names of topics and groups that only this client uses."""
    return [f"{name}-{client.replace('.', '-')}" for name in names]
