"""After ``kill -9`` while faults hold deliveries, no message is lost, repeated, early or out of order."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mocketmq import Client, UnreachableError
from mocketmq.clock import US_PER_S
from mocketmq.failpoint import ENVIRONMENT
from tests.crash.faults import delivered, send
from tests.support.brokers import rows
from tests.support.process import forked_broker

COUNT = 20
POINTS = {
    3: ("delivery.picked:1", "writer.written:9", "delivery.delivered:1"),
    13: ("writer.written:9", "writer.committed:12", "clock.fired:2"),
}
"""Failpoints with the second from which they kill: the first due time, and the first releases."""
RULES: dict[str, dict[str, Any]] = {
    "deliver-late": {"by": "10s"},
    "hold": {"lasts": "16s"},
    "throttle": {"per_second": 2},
    "deliver-again": {"times": 2, "by": "10s"},
}
QUICK = ("deliver-late", "deliver-again")


@pytest.mark.parametrize(
    "do", [pytest.param(do, marks=() if do in QUICK else pytest.mark.slow) for do in RULES]
)
async def test_kill_while_deliveries_are_held(tmp_path: Path, do: str) -> None:
    serve = ("--data", str(tmp_path), "--topic-queues", "1", "--clock", "manual")
    levels, timed = ([f"{name}{n}" for n in range(COUNT)] for name in ("level", "timed"))
    async with forked_broker(*serve) as process, Client(process.url) as client:
        await client.add_fault(do, name="rule", **RULES[do])
        for one, other in zip(levels, timed, strict=True):
            await send(client, one, level=2)
            await send(client, other, delay_ms=5_000)
            await client.advance("100ms")
        begin_ms = (await client.clock())["now_ms"]
    for seconds, points in POINTS.items():
        async with forked_broker(*serve) as process, Client(process.url) as client:
            now_ms = (await client.clock())["now_ms"]
            await client.move_to(max(now_ms, begin_ms + seconds * 1_000))
            visible = len(await delivered(client))
        for point in points:
            await run_until_killed(serve, point)
    async with forked_broker(*serve) as process, Client(process.url) as client:
        await check_what_is_held(client, do)
        assert len(await delivered(client)) > visible, "no message was released during the last kills"
        await client.advance("2m")
        found = await delivered(client)
        assert (await client.fault("rule"))["held"] == 0
    assert sorted(found) == sorted([*levels, *timed] * (3 if do == "deliver-again" else 1))
    for sent in (levels, timed):
        assert list(dict.fromkeys(one for one in found if one in sent)) == sent
    if do == "deliver-late":
        late = rows(tmp_path, "SELECT min(delivered_us - due_us) AS us, fault FROM deliveries")
        assert late == [{"us": 10 * US_PER_S, "fault": "rule"}]


async def run_until_killed(serve: Sequence[str], point: str) -> None:
    """Move the clock until the broker dies at the failpoint."""
    async with forked_broker(*serve, env={ENVIRONMENT: point}) as process, Client(process.url) as client:
        with pytest.raises(UnreachableError):
            for _ in range(100):
                await client.advance("200ms")
        assert await process.wait() == -signal.SIGKILL


async def check_what_is_held(client: Client, do: str) -> None:
    """Check that the rule's count equals the number of messages missing in the topic."""
    missing = 2 * COUNT - len(set(await delivered(client)))
    held = (await client.fault("rule"))["held"]
    assert (await client.clock())["pending"] == missing
    if do == "deliver-again":
        assert held == 3 * 2 * COUNT - len(await delivered(client))
    else:
        assert held == missing
