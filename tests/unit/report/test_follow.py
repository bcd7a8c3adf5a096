"""Parts of the rolling table: the stream of deliveries, their windows, and the table itself."""

import io
import math
import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from rich.console import Console

from mocketmq.clock import US_PER_S
from mocketmq.errors import StoreUnavailableError
from mocketmq.schedule.level_table import LevelTable
from mocketmq_report.ledger.delivery_offsets import BATCH_ROWS
from mocketmq_report.live.delivery_stream import STEPS, DeliveryStream, first_count, windows
from mocketmq_report.live.follow import news
from mocketmq_report.live.rolling_table import RollingTable
from mocketmq_report.live.status import NO_LEVEL, Backlog, BrokerStatus
from tests.support.brokers import S
from tests.support.oracle import bin_of
from tests.support.stores import START_US, MadeStore

WINDOW_US = 60 * S
STEP_US = WINDOW_US // STEPS
NOW_US = START_US + 3_600 * S


def reader(data: Path, since_us: int = START_US) -> Any:
    source = DeliveryStream({"path": str(data), "since_us": str(since_us)})
    return source.streamReader(source.schema())


def read(found: Any, start: int, end: int) -> list[tuple[int, int, int]]:
    """Return level, lateness and instant of the deliveries between two offsets."""
    batches = [
        batch
        for partition in found.partitions({"delivered": start}, {"delivered": end})
        for batch in found.read(partition)
    ]
    for batch in batches:
        assert batch.schema.names == ["level", "late_us", "delivered_us", "bin_us"]
        assert {str(field.type) for field in batch.schema} == {"int64"}
        assert batch["bin_us"].to_pylist() == [bin_of(late)[-1] for late in batch["late_us"].to_pylist()]
    return [tuple(row.values())[:3] for batch in batches for row in batch.to_pylist()]


@pytest.fixture
def store(tmp_path: Path) -> MadeStore:
    """A store with deliveries 10, 20 to 50, a second apart. The third is forced; the last has no level."""
    made = MadeStore(tmp_path / "data")
    for place in range(5):
        changed: dict[str, Any] = {"forced": int(place == 2), "level": None if place == 4 else 3}
        made.deliver(10 * place + 10, delivered_us=START_US + place * S, due_us=START_US, **changed)
    return made


@pytest.mark.parametrize(
    ("since_us", "offset"), [(START_US, -1), (START_US + 1, 10), (START_US + 3 * S, 30), (NOW_US, 50)]
)
def test_the_stream_begins_after_older_deliveries(store: MadeStore, since_us: int, offset: int) -> None:
    assert reader(store.data, since_us).initialOffset() == {"delivered": offset}


def test_the_stream_resumes_with_newer_events(store: MadeStore) -> None:
    found = reader(store.data)
    assert found.latestOffset({"delivered": -1}, ReadAllAvailable()) == {"delivered": 50}
    assert found.latestOffset({"delivered": 10}, ReadMaxRows(2)) == {"delivered": 30}
    assert found.latestOffset({"delivered": 50}, ReadMaxRows(2)) == {"delivered": 50}
    assert found.getDefaultReadLimit() == ReadMaxRows(BATCH_ROWS)


def test_stream_has_each_delivery_once_and_no_forced_ones(store: MadeStore) -> None:
    found = reader(store.data)
    assert found.partitions({"delivered": 10}, {"delivered": 10}) == []
    assert read(found, -1, 20) == [(3, 0, START_US), (3, S, START_US + S)]
    assert read(found, 20, 50) == [(3, 3 * S, START_US + 3 * S), (NO_LEVEL, 4 * S, START_US + 4 * S)]


def test_a_missing_store_has_nothing_new(store: MadeStore) -> None:
    found = reader(store.data)
    store.database.unlink()
    assert found.latestOffset({"delivered": 20}, ReadAllAvailable()) == {"delivered": 20}
    with pytest.raises(StoreUnavailableError):
        read(found, 20, 50)


def test_first_count_equals_that_of_the_windows(spark: SparkSession, store: MadeStore) -> None:
    stream = read(reader(store.data, START_US + S), 10, 50)
    rows = [(*row, bin_of(row[1])[-1]) for row in stream]
    columns = "level long, late_us long, delivered_us long, bin_us long"
    windowed = windows(spark.createDataFrame(rows, columns), WINDOW_US).collect()
    counted = first_count(store.data, START_US + S, WINDOW_US)
    assert {(row.level, row.from_us): row.asDict() for row in counted} == {
        (row.level, row.from_us): row.asDict() for row in windowed
    }


def test_windows_agree_with_plain_python(spark: SparkSession) -> None:
    drawn = random.Random(4)
    rows = [
        (level, late_us, NOW_US + drawn.randrange(2 * WINDOW_US))
        for level in (NO_LEVEL, 3, 18)
        for late_us in (
            drawn.choice((-700, 40, 900, 70_123, 9_000_001)) * drawn.randint(1, 3) for _ in range(90)
        )
    ]
    rows.append((7, -5, NOW_US + 86_400 * S))
    expected: dict[tuple[int, int], list[int]] = defaultdict(list)
    for level, late_us, at_us in rows:
        last_us = at_us // STEP_US * STEP_US
        for from_us in range(last_us - WINDOW_US + STEP_US, last_us + 1, STEP_US):
            expected[level, from_us].append(late_us)
    binned = [(*row, bin_of(row[1])[-1]) for row in rows]
    columns = "level long, late_us long, delivered_us long, bin_us long"
    found = windows(spark.createDataFrame(binned, columns), WINDOW_US)
    counted = {(row.level, row.from_us): row for row in found.coalesce(1).collect()}
    assert counted.keys() == expected.keys()
    for key, late in expected.items():
        late.sort()
        row = counted[key]
        assert (row.deliveries, row.max_us) == (len(late), late[-1])
        assert row.early == sum(each < 0 for each in late)
        for share, value in ((0.5, row.p50_us), (0.99, row.p99_us)):
            exact = late[math.ceil(share * len(late)) - 1]
            assert exact <= value <= max(exact, min(exact + abs(exact) // 1_000, late[-1])), (key, share)


def window(level: int, from_us: int, deliveries: int, **changed: int) -> Row:
    late = {"early": 0, "max_us": 900, "p50_us": 300, "p99_us": 800}
    return Row(from_us=from_us, level=level, deliveries=deliveries, **{**late, **changed})


def at(now_us: int, **changed: Any) -> BrokerStatus:
    told: dict[str, Any] = {
        "store": START_US,
        "first_us": START_US,
        "run": 1,
        "version": "0.1.0",
        "profile": "exact",
        "clock": "real",
        "levels": LevelTable.parse("1s 10m"),
        "moves": 0,
        "now_us": now_us,
        "newest": 5,
        "is_running": True,
        "waiting": {},
    }
    return BrokerStatus(**{**told, **changed})


def shown(table: RollingTable, now: BrokerStatus) -> dict[str, list[str]]:
    """Return the cells of each level."""
    console = Console(file=io.StringIO(), width=200)
    rendered = table.render(now, console.width)
    columns = [[str(cell) for cell in column.cells] for column in rendered.columns]
    console.print(rendered)
    return {cells[0]: cells[1:] for cells in map(list, zip(*columns, strict=True))}


ALL = "level  delay  delivered  rate  p50  p99  max  early  pending  overdue  total  total max  total early"
NOTHING = ["0", "–", "–", "–", "–", "–", "0", "–", "0", "–", "–"]


def test_no_rate_is_shown_before_the_first_count() -> None:
    cells = shown(RollingTable(WINDOW_US, START_US), at(NOW_US))
    assert cells == {
        level: [delay, "–", *NOTHING[1:8], "–", "–", "–"] for level, delay in (("1", "1s"), ("2", "10m"))
    }


def test_window_ending_with_the_present_step_is_shown() -> None:
    table = RollingTable(WINDOW_US, START_US)
    table.update([window(1, NOW_US - WINDOW_US + step * STEP_US, 600 + step) for step in range(3)])
    cells = shown(table, at(NOW_US + STEP_US - 1))
    assert cells["1"] == ["1s", "601", "10/s", "300µs", "800µs", "900µs", "–", "0", "–", "600", "900µs", "–"]
    assert cells["2"] == ["10m", *NOTHING]
    assert shown(table, at(NOW_US - 1))["1"][1] == "600"
    assert shown(table, at(NOW_US + STEP_US))["1"][1] == "602"
    assert shown(table, at(NOW_US + 2 * STEP_US))["1"] == ["1s", *NOTHING[:8], "600", "900µs", "–"]


def test_rate_covers_the_time_since_the_start() -> None:
    table = RollingTable(WINDOW_US, START_US)
    table.update([window(1, NOW_US - WINDOW_US + STEP_US, 40)])
    assert shown(table, at(NOW_US, first_us=NOW_US - 20 * S))["1"][2] == "2/s"
    assert shown(table, at(NOW_US, first_us=NOW_US))["1"][2] == "8/s"  # the rate covers at least one step


def test_changed_windows_are_summed_once() -> None:
    table = RollingTable(WINDOW_US, START_US)
    table.update(
        [window(1, NOW_US, 3, early=1, max_us=50), window(1, NOW_US + STEP_US, 3, early=1, max_us=50)]
    )
    table.update([window(1, NOW_US, 10, early=2, max_us=40_000), window(2, NOW_US, 7)])
    table.update([window(1, NOW_US + WINDOW_US, 5, early=0, max_us=20)])
    cells = shown(table, at(NOW_US + WINDOW_US))
    assert cells["1"][-3:] == ["15", "40ms", "2"]
    assert cells["2"][-3:] == ["7", "900µs", "–"]


def test_old_windows_are_forgotten_unless_they_may_be_shown() -> None:
    table = RollingTable(WINDOW_US, START_US)
    for step in range(-STEPS, 3 * STEPS):
        table.update([window(1, NOW_US + step * STEP_US, 100 + step)])
    assert shown(table, at(NOW_US + 3 * WINDOW_US - 1))["1"][1] == str(100 + 2 * STEPS)
    assert len(table._windows) == STEPS + 1
    table.update([window(1, NOW_US + 3_600 * S, 1)])  # the clock was moved
    assert len(table._windows) == 1
    assert shown(table, at(NOW_US + 3_660 * S - 1))["1"][1] == "1"


def test_pending_and_overdue_messages_are_shown() -> None:
    table = RollingTable(WINDOW_US, START_US)
    from_us = NOW_US - WINDOW_US + STEP_US
    for start_us in (from_us, NOW_US):  # a summed window begins at NOW_US
        table.update([window(NO_LEVEL, start_us, 2, early=2), window(19, start_us, 4)])
    cells = shown(table, at(NOW_US, waiting={2: Backlog(1_234, 12), NO_LEVEL: Backlog(7, 0)}))
    assert list(cells) == ["1", "2", "19", "other"]
    assert cells["2"][7:9] == ["1,234", "12"]
    assert cells["19"][:2] == ["1s", "4"]
    assert cells["other"][0] == "any"
    assert cells["other"][6:9] == ["2", "7", "–"]


@pytest.mark.parametrize(
    ("width", "headings"),
    [
        (80, "level|delivered|p99|max|early|pending|overdue|total early"),
        (100, "level|delivered|p50|p99|max|early|pending|overdue|total|total early"),
        (160, "level|delay|delivered|rate|p50|p99|max|early|pending|overdue|total|total max|total early"),
    ],
)
def test_content_fitting_the_terminal_is_shown_whole(width: int, headings: str) -> None:
    table = RollingTable(WINDOW_US, START_US)
    table.update([window(1, NOW_US - WINDOW_US + STEP_US, 123_456, early=1), window(2, NOW_US, 7_654_321)])
    screen = io.StringIO()
    Console(file=screen, width=width).print(table.render(at(NOW_US), width))
    lines = screen.getvalue().splitlines()
    [shown] = [line for line in lines if "level" in line and "pending" in line]
    assert re.sub(r"  +", "|", shown.strip()) == headings
    assert all(len(line) <= width and "…" not in line for line in lines)


def test_the_title_names_the_window_and_the_run() -> None:
    title = str(RollingTable(WINDOW_US, START_US).render(at(NOW_US, run=3), 200).title)
    assert title == (
        "1m up to 2026-11-01T01:00:00.000Z, total since 2026-11-01T00:00:00.000Z;"
        " run 3, mocketmq 0.1.0, profile exact, clock real"
    )


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"run": 2, "moves": 1, "newest": -1}, "the broker was started again"),
        ({"moves": 1, "newest": -1}, "the clock was moved"),
        ({"newest": 4}, "the broker was reset"),
        ({"newest": 6}, None),
    ],
)
def test_events_are_reported(changed: dict[str, int], sentence: str | None) -> None:
    found = news(at(NOW_US), at(NOW_US + US_PER_S, **changed))
    assert found == (sentence and f"2026-11-01T01:00:01.000Z: {sentence}")
