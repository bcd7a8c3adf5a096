"""A lateness report names the faults that kept messages from consumers, and the affected messages."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mocketmq_report.job import Job, ReportRunner, run
from mocketmq_report.ledger.export import export
from mocketmq_report.report.why import why
from tests.doors.test_faults import Doors, running_doors
from tests.support.brokers import TOPIC

GROUP = "billing"


@asynccontextmanager
async def broker_with(data: Path) -> AsyncIterator[Doors]:
    """Run a broker whose topic has a message that has just become due."""
    async with running_doors(data=str(data), aliyun_port=0) as doors:
        await receive(doors, wait_ms=0)  # creates the group
        await doors.api.send(body="late", delay_ms=1_000)
        await doors.api.ok("POST", "/v1/clock/advance", {"by": "1s"})
        yield doors


async def receive(doors: Doors, **fields: Any) -> list[Any]:
    answer = await doors.api.call(
        "POST", f"/v1/groups/{GROUP}/receive", {"topic": TOPIC, "invisible_ms": 60_000, **fields}
    )
    return answer.body["messages"] if answer.status == 200 else []


async def acknowledge(doors: Doors, messages: list[Any]) -> None:
    await doors.api.ok("POST", f"/v1/groups/{GROUP}/ack", {"receipts": [one["receipt"] for one in messages]})


def reported(data: Path, out: Path) -> str:
    """Return what the report says of consumers; reports of the store and of its export must agree."""
    export(data, out, lambda *_: None)
    found = []
    for source in (data, out):
        report = run(ReportRunner(None), Job([str(source)]), lambda *_: None)
        assert [(cause.at, cause.cause) for cause in report.causes] == [("consumer", "fault")]
        (said,) = why(report)
        found.append((report.causes, said.reasons[0].words))
    assert found[0] == found[1]
    words: str = found[0][1]
    return words


@pytest.mark.parametrize("door", ["http", "remoting"])
async def test_report_names_the_fault_of_refused_receives(tmp_path: Path, door: str) -> None:
    async with broker_with(tmp_path / "data") as doors:
        await doors.add("refuse", error="SYSTEM_BUSY", operation="receive", next=3, name="busy")
        for _ in range(3):
            if door == "http":
                assert await receive(doors) == []
            else:
                pull = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "queueOffset": "0"}
                assert (await doors.client.ask(11, pull)).code == 2
            await doors.api.ok("POST", "/v1/clock/advance", {"by": "4s"})
        messages = await receive(doors)
        assert len(messages) == 1
        await acknowledge(doors, messages)
    words = reported(tmp_path / "data", tmp_path / "out")
    assert words == "hit the injected fault busy: 3 receives of billing refused, up to 12s"


async def test_report_names_the_fault_of_a_lost_acknowledgement(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "data") as doors:
        messages = await receive(doors)
        await doors.add("close", stage="before", operation="ack", next=1, name="deaf")
        with pytest.raises(aiohttp.ClientError):
            await acknowledge(doors, messages)
        await doors.api.ok("POST", "/v1/clock/advance", {"by": "61s"})
        await acknowledge(doors, await receive(doors))
    words = reported(tmp_path / "data", tmp_path / "out")
    assert words == "hit the injected fault deaf: 1 ack of billing cut off, up to 1m1s"


async def test_report_names_the_fault_of_a_lost_receive_answer(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "data") as doors:
        await doors.add("close", operation="receive", next=1, name="lost")
        with pytest.raises(aiohttp.ClientError):
            await receive(doors)
        await doors.api.ok("POST", "/v1/clock/advance", {"by": "61s"})
        await acknowledge(doors, await receive(doors))
    words = reported(tmp_path / "data", tmp_path / "out")
    assert words == "hit the injected fault lost: 1 receive of billing cut off, up to 1m1s"


@pytest.mark.parametrize("is_bounded", [True, False])
async def test_report_names_an_outage(tmp_path: Path, is_bounded: bool) -> None:
    async with broker_with(tmp_path / "data") as doors:
        await doors.add(
            "broker-away", name="gone", door="remoting", **({"lasts": "12s"} if is_bounded else {})
        )
        await doors.api.ok("POST", "/v1/clock/advance", {"by": "12s"})
        if not is_bounded:
            await doors.api.ok("DELETE", "/v1/faults/gone")
        await acknowledge(doors, await receive(doors))
    words = reported(tmp_path / "data", tmp_path / "out")
    assert words == "hit the injected fault gone: the broker was down for 12s, up to 12s"
