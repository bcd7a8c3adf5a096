"""Requests over gRPC that end before the length that they announced."""

import asyncio

import aiohttp
import pytest

from mocketmq.grpc_proxy.service import UNARY
from tests.hostile.http2 import announced, raw_http2
from tests.support.patience import PATIENCE_S
from tests.support.process import BrokerProcess, forked_broker

K = 1 << 10
CUTS = (0, 1, 2, 3, 4, 5, 6, *(16 * K + n for n in (-1, 0, 1, 4, 5, 6)), *(64 * K * n + 5 for n in (1, 2, 4)))
CUTS_IN_DATA = (*CUTS, 64 * K, 128 * K)

INVALID_ARGUMENT, RESOURCE_EXHAUSTED, INTERNAL = "3", "8", "13"


async def assert_healthy(broker: BrokerProcess) -> None:
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE_S)) as session,
        session.get(f"{broker.url}/healthz") as answer,
    ):
        assert answer.status == 200


@pytest.mark.parametrize("rpc", [*UNARY, "ReceiveMessage", "Telemetry"])
async def test_a_cut_request_fails_alone(rpc: str) -> None:
    async with forked_broker() as broker, raw_http2(broker.grpc) as client:
        for sent in CUTS_IN_DATA:
            stream = client.open(rpc)
            await client.send(stream, announced(sent), end=True)
            trailers = await client.trailers(stream)
            ended_well = rpc == "Telemetry" and not sent
            refused = trailers.get("grpc-status") in (INVALID_ARGUMENT, RESOURCE_EXHAUSTED, INTERNAL)
            answered = trailers.get("grpc-status") == "0"  # with the refusal in its answer
            assert ended_well or refused or answered, (sent, trailers)
            await assert_healthy(broker)
        assert "Traceback" not in broker.stderr
        broker.terminate()
        async with asyncio.timeout(PATIENCE_S):
            assert await broker.wait() == 0
