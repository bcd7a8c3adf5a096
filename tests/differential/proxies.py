"""The two ends for gRPC clients: RocketMQ's proxy in a process of its own, and mocketmq."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.differential.op import Ends
from tests.support.grpc import touch
from tests.support.process import broker_process
from tests.upstream.jars import V5_5
from tests.upstream.process import HOST, SMALL, running_upstream


@asynccontextmanager
async def their_proxy(home: Path, settings: Mapping[str, str] = {}) -> AsyncIterator[Ends]:
    """Run RocketMQ 5.5.0 with its proxy and these settings of its broker.

    In the process of a broker, the proxy would tell clients its own port, and has no lite topics.
    """
    settings = {**SMALL, "brokerFastFailureEnable": "false", **settings}
    proxy = {"useEndpointPortFromRequest": True}
    async with running_upstream(home, V5_5, settings, proxy, has_own_proxy=True) as upstream:
        yield Ends(HOST, upstream.namesrv_port, upstream.broker_port, upstream.grpc_port)


@asynccontextmanager
async def our_proxy(*arguments: str) -> AsyncIterator[Ends]:
    """Run mocketmq with these arguments, and check that it prints no error."""
    async with broker_process("--log-level", "error", *arguments) as broker:
        await touch(broker.grpc)
        yield Ends(HOST, broker.name_server[1], broker.broker_port, int(broker.grpc.rpartition(":")[2]))
        assert not broker.stderr, broker.stderr
