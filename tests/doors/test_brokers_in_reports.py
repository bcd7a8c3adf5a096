"""The ledger and the lateness report of a cluster say which broker had each message."""

from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from mocketmq.app import Emulator, running_emulator
from mocketmq.clock import US_PER_S
from mocketmq.message.message import Message
from mocketmq.message.properties import DELAY
from mocketmq.settings import BrokerDeclaration, Settings
from mocketmq_report.document import Lateness, Report
from mocketmq_report.job import Job, ReportRunner, run
from mocketmq_report.judge.thresholds import parse
from mocketmq_report.ledger.export import export
from mocketmq_report.report.html import html
from mocketmq_report.report.markdown import markdown
from tests.support.brokers import FREE_PORTS, TOPIC
from tests.support.stores import START_US, MadeStore

NAMES = ("orders-a", "orders-b")
TITLE = "<h2>By scheme, profile, topic, broker and run</h2>"
BROKERS = tuple(BrokerDeclaration(name=name) for name in NAMES)


async def fill(data: Path, **changed: object) -> None:
    """Leave a store: two deliveries of the first queue on time, one of the second late, and a pending one."""
    settings = Settings(**{**FREE_PORTS, "data": str(data), "clock": "manual", **changed})
    async with running_emulator(settings) as emulator:
        await send(emulator, 0, DELAY="1")
        await send(emulator, 0, delay_us=US_PER_S)
        if settings.brokers > 1:
            await send(emulator, 1, DELAY="1")
            await emulator.broker.broker_lives.crash(settings.broker_names[1])
        await emulator.broker.mover.advance(60 * US_PER_S)
        if settings.brokers > 1:
            await emulator.broker.broker_lives.start(settings.broker_names[1])
            await emulator.broker.mover.advance(1_000)
        await send(emulator, 1, DELAY="18")
        await send(emulator, 1, delay_us=3_600 * US_PER_S)


async def send(emulator: Emulator, queue_id: int, delay_us: int | None = None, **properties: str) -> None:
    assert set(properties) <= {DELAY}
    await emulator.broker.sender.send(Message(TOPIC, b"x", dict(properties), queue_id, delay_us=delay_us))


def reports(data: Path, out: Path) -> list[Report]:
    """The reports of a store and of its export."""
    export(data, out, lambda *_: None)
    return [run(ReportRunner(None), Job([str(source)]), lambda *_: None) for source in (data, out)]


def by_broker(report: Report) -> dict[str, Lateness]:
    return {row.name: row for row in report.lateness if row.dimension == "broker"}


async def test_the_report_has_a_row_for_each_broker(tmp_path: Path) -> None:
    await fill(tmp_path / "data", brokers=2, declared_brokers=BROKERS)
    for report in reports(tmp_path / "data", tmp_path / "out"):
        found = by_broker(report)
        assert {name: (row.measured, row.max_us) for name, row in found.items()} == {
            "orders-a": (2, 0),
            "orders-b": (1, 59 * US_PER_S),
        }
        assert "Schemes, profiles, topics, brokers, runs" in markdown(report)
        page = html(report)
        assert TITLE in page
        assert ">orders-b</th>" in page
    rows = ds.dataset(tmp_path / "out" / "deliveries", partitioning="hive").to_table().to_pylist()
    assert Counter((row["broker"], row["queue_id"], row["state"]) for row in rows) == {
        ("orders-a", 0, "delivered"): 2,
        ("orders-b", 1, "delivered"): 1,
        ("orders-b", 1, "pending"): 2,
    }


async def test_names_are_those_of_the_run_that_delivered(tmp_path: Path) -> None:
    await fill(tmp_path / "data", brokers=2)
    await fill(tmp_path / "data", brokers=2, declared_brokers=BROKERS)
    for report in reports(tmp_path / "data", tmp_path / "out"):
        assert {name: row.measured for name, row in by_broker(report).items()} == {
            **{"broker-a": 2, "broker-b": 1},
            **{"orders-a": 2, "orders-b": 1},
        }


def test_thresholds_judge_one_broker(tmp_path: Path) -> None:
    made = MadeStore(tmp_path)
    made.run("UPDATE runs SET brokers = 'broker-a,broker-b'")
    made.deliver(1, queue_id=0)
    made.deliver(2, queue_id=1, delivered_us=START_US + 62 * US_PER_S)
    texts = ("broker=broker-a max <= 1s", "broker=broker-b max <= 1s", "broker=broker-c max <= 1s")
    job = Job([str(tmp_path)], thresholds=[parse(text) for text in texts])
    judged = run(ReportRunner(None), job, lambda *_: None).judgements
    assert [(each.text, each.passed) for each in judged] == [
        (texts[0], True),
        (texts[1], False),
        (texts[2], False),
    ]
    assert judged[2].reason == (
        "the report has no broker 'broker-c'; its brokers are 'broker-a' and 'broker-b'"
    )


@pytest.mark.parametrize("declared", [(), BROKERS[:1]])
async def test_a_single_broker_is_not_named(tmp_path: Path, declared: tuple[BrokerDeclaration, ...]) -> None:
    await fill(tmp_path / "data", declared_brokers=declared)
    for report in reports(tmp_path / "data", tmp_path / "out"):
        assert by_broker(report) == {}
        assert "brokers" not in markdown(report)
        assert TITLE not in html(report)
    rows = ds.dataset(tmp_path / "out" / "deliveries", partitioning="hive").to_table().to_pylist()
    assert {row["broker"] for row in rows} == {None}
