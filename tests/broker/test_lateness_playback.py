"""A broker plays back another cluster's lateness, drawn with a seed from each level's distribution."""

import asyncio
import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.clock import US_PER_MS
from mocketmq.errors import SettingError
from mocketmq.faults.rule import FaultRule
from mocketmq.schedule.held_deliveries import RECORDED
from mocketmq.store.database import MEMORY
from mocketmq_report.document import Report
from mocketmq_report.job import Job, ReportRunner, run
from mocketmq_report.progress import ignore_progress
from mocketmq_report.report.output import json
from tests.support.brokers import S, running_broker, send

SHARES = (0.5, 0.75, 0.9, 0.95, 0.99)
COUNT = 1_000
LEVELS = (1, 3, None)


def recorded() -> dict[int | None, list[int]]:
    """Return lateness of clusters that check every 100 ms, that stall at times, and that are fast or slow."""
    draw = Random(20)
    return {
        1: [draw.randint(0, 100 * US_PER_MS) for _ in range(4_000)],
        3: [round(draw.lognormvariate(10.5, 0.8)) for _ in range(4_000)],
        None: [draw.choice((1, 1, 1, 400)) * US_PER_MS + draw.randint(0, 900) for _ in range(999)],
    }


def write_ledger(path: Path, late_us: Mapping[int | None, Sequence[int]]) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("message_id", "due_us", "delivered_us", "level"))
        for level, values in late_us.items():
            for number, late in enumerate(values):
                due = 1_795_219_200_000_000 + number * S
                rows.writerow((f"{level}-{number}", due, due + late, level))


def report_of(data: Path, *baselines: Path) -> Report:
    return run(ReportRunner(None), Job([str(data)], baselines=list(map(str, baselines))), ignore_progress)


def quantile(values: Sequence[int], share: float) -> int:
    return sorted(values)[ceil(share * len(values)) - 1]


async def play(broker: Broker, count: int = COUNT, levels: Sequence[int | None] = LEVELS) -> None:
    """Send ``count`` messages at each level at once, and wait until all are delivered."""
    for level in levels:
        given: dict[str, Any] = {"TIMER_DELAY_MS": "5000"} if level is None else {"level": level}
        await asyncio.gather(*(send(broker, **given) for _ in range(count)))
    await broker.mover.advance(3_600 * S)


async def late_of(broker: Broker) -> dict[int | None, list[int]]:
    """Return the lateness of each delivery, in order of sending."""
    found = defaultdict(list)
    for level, late in await broker.store.database.rows(
        "SELECT level, delivered_us - due_us FROM deliveries ORDER BY parked_offset"
    ):
        found[level].append(late)
    return found


@pytest.mark.parametrize("form", ["ledger.csv", "report.json"])
async def test_quantiles_agree_with_the_recording(form: str, tmp_path: Path) -> None:
    truth = recorded()
    write_ledger(tmp_path / "ledger.csv", truth)
    if form == "report.json":
        (tmp_path / form).write_bytes(json(report_of(tmp_path / "ledger.csv")))
    async with running_broker(lateness_from=str(tmp_path / form)) as broker:
        await play(broker)
        played = await late_of(broker)
        assert broker.schemes.early == 0
        assert broker.pending.count == 0
    for level, late in truth.items():
        assert len(played[level]) == COUNT
        for share in SHARES:
            wanted, got = quantile(late, share), quantile(played[level], share)
            assert abs(got - wanted) <= max(0.05 * wanted, 2 * US_PER_MS), (level, share, wanted, got)


async def test_report_compares_playback_and_recording(tmp_path: Path) -> None:
    ledger, data = tmp_path / "ledger.csv", tmp_path / "data"
    write_ledger(ledger, recorded())
    async with running_broker(data, lateness_from=str(ledger)) as broker:
        await play(broker, 500, [1, 3])
    report = report_of(data, ledger)
    assert report.comparison
    changes = {
        (each.name, each.metric): each.values
        for each in report.comparison.changes
        if each.dimension == "level"
    }
    for level in ("1", "3"):
        for metric in ("p50", "p90", "p99"):
            before, now = changes[level, metric]
            assert before is not None
            assert now is not None
            assert abs(now - before) <= max(0.05 * before, 2 * US_PER_MS), (level, metric)
    assert {cause.fault for cause in report.causes if cause.at == "delivery"} == {RECORDED}
    # The playback can itself be recorded and played back.
    async with running_broker(lateness_from=str(data)) as broker:
        await play(broker, 100)
        again = await late_of(broker)
    assert abs(quantile(again[1], 0.5) - 50 * US_PER_MS) < 5 * US_PER_MS


async def test_equal_seeds_give_equal_lateness_after_reset_and_restart(
    anywhere: Path | str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ledger = tmp_path_factory.mktemp("recorded") / "ledger.csv"
    write_ledger(ledger, recorded())
    played = []
    for seed in (1, 1, 2):
        async with running_broker(anywhere, lateness_from=str(ledger), lateness_seed=seed) as broker:
            for _ in range(2):
                await play(broker, 20, [1, 3])
                played.append(await late_of(broker))
                await broker.reset.all()
    first = played[0]
    assert len(first[1]) == len(first[3]) == 20
    assert played[:4] == [first] * 4
    assert first != played[4] == played[5]


async def test_levels_missing_in_the_recording_use_its_total(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.csv"
    write_ledger(ledger, {1: [7_000], 2: [9_000]})
    async with running_broker(lateness_from=str(ledger)) as broker:
        await play(broker, 50, [1, 2, 5, None])
        played = await late_of(broker)
    assert ({*played[1]}, {*played[2]}) == ({7_000}, {9_000})
    for level in (5, None):
        assert 7_000 <= min(played[level]) < max(played[level]) <= 9_000


async def test_early_deliveries_of_the_recording_are_on_time(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.csv"
    write_ledger(ledger, {1: [-5_000] * 10})
    async with running_broker(lateness_from=str(ledger)) as broker:
        await play(broker, 10, [1])
        assert (await late_of(broker))[1] == [0] * 10
        assert broker.schemes.early == 0


async def test_fault_rule_overrides_the_recording(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.csv"
    write_ledger(ledger, {1: [5_000]})
    async with running_broker(lateness_from=str(ledger)) as broker:
        await broker.faults.add_rule(FaultRule(do="deliver-late", by="1s", next=1))
        await play(broker, 2, [1])
        assert (await late_of(broker))[1] == [S, 5_000]
        assert [*await broker.store.database.rows("SELECT fault FROM deliveries ORDER BY fault")] == [
            ("fault-1",),
            (RECORDED,),
        ]


async def test_a_restart_does_not_deliver_held_messages_sooner(tmp_path: Path) -> None:
    ledger, data = tmp_path / "ledger.csv", tmp_path / "data"
    write_ledger(ledger, {1: [60 * S]})
    async with running_broker(data, lateness_from=str(ledger)) as broker:
        await send(broker, level=1)
        assert (await broker.mover.advance(2 * S)).fired == 0
    async with running_broker(data) as broker:
        assert broker.pending.count == 1
        await broker.mover.advance(60 * S)
        assert (await late_of(broker))[1] == [60 * S]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("nosuch.csv", None, "No such file or directory"),
        ("ledger.xlsx", "", "its name has another ending"),
        ("ledger.csv", "message_id,due_us\nA,1\n", "it has no column delivered_us"),
        ("ledger.csv", "message_id,due_us,delivered_us\nA,1,\n", "it contains no delivery"),
        ("ledger.csv", "message_id,due_us,delivered_us\nA,soon,2\n", "invalid literal"),
        ("ledger.jsonl", "[]", "Expected `object`"),
        ("report.json", "{}", "missing required field"),
        ("report.json", '{"lateness": [], "spectra": []}', "it contains no delivery"),
        ("folder", None, "unable to open database file"),
    ],
)
async def test_unreadable_recording_is_refused_with_the_reason(
    name: str, content: str | None, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(SettingError, match=r"lateness_from is .* allowed: a report\.json") as refused:
        async with running_broker(MEMORY, lateness_from=str(tmp_path / name)):
            pass
    assert reason in str(refused.value)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
async def test_other_forms_of_ledgers_are_read(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"ledger.{ending}"
    if ending == "jsonl":
        path.write_text(
            '{"due_ms": 1000, "delivered_ms": 1004, "level": 1}\n'
            '{"due_ms": 1000, "delivered_ms": 900, "level": 1, "forced": true}\n{"due_ms": 1}\n'
        )
    else:
        import pyarrow as pa
        from pyarrow import parquet

        rows = {"due_us": [10, 20], "delivered_us": [4_010, None], "level": [1, 1], "topic": ["a", "a"]}
        parquet.write_table(pa.table(rows), path)
    async with running_broker(lateness_from=str(path)) as broker:
        await play(broker, 3, [1])
        assert (await late_of(broker))[1] == [4_000] * 3
