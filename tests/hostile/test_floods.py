"""Floods of HTTP/2 frames: the connection is closed, other clients are served, and memory is freed."""

from pathlib import Path

import pytest

from mocketmq.grpc_proxy.frames import Http2Code
from tests.hostile.flooded import MB, flooded, memory_is_back
from tests.hostile.flooder import Ended
from tests.hostile.floods import FLOODS
from tests.support.process import forked_broker

MOST_BYTES = 250 * MB


async def _withstand(flood: str, data: Path, *, connections: int = 1, rounds: int = 1) -> list[Ended]:
    async with forked_broker("--data", str(data)) as broker:
        found = await flooded(broker, flood, connections=connections, rounds=rounds)
        assert all(found.took_ms.values())
        assert found.peak < MOST_BYTES
        await memory_is_back(broker, found)
        assert "Traceback" not in broker.stderr
        return found.ends


@pytest.mark.parametrize("flood", FLOODS)
async def test_a_flood_closes_only_its_own_connection(flood: str, tmp_path: Path) -> None:
    (ended,) = await _withstand(flood, tmp_path)
    assert ended.is_closed
    assert ended.goaway == Http2Code.ENHANCE_YOUR_CALM


@pytest.mark.slow
@pytest.mark.parametrize("flood", FLOODS)
async def test_twenty_flooding_connections_leave_others_served(flood: str, tmp_path: Path) -> None:
    ends = await _withstand(flood, tmp_path, connections=20, rounds=2)
    assert len(ends) == 40
    assert all(ended.is_closed for ended in ends)
    assert all(ended.goaway == Http2Code.ENHANCE_YOUR_CALM for ended in ends)
