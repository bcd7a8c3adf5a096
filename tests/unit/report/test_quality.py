"""Rows are dropped for a reason, and odd ones are counted."""

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from mocketmq.errors import RefusedError
from mocketmq_report.document import BrokenSource, Drop, Quality
from mocketmq_report.ledger import quality
from mocketmq_report.ledger.columns import STATES
from mocketmq_report.ledger.frames import DELIVERIES

YEAR_10000_US = 253_402_300_800_000_000
GOOD = {
    "run": "r",
    "state": "delivered",
    "message_id": "A",
    "scheme": "levels",
    "level": 1,
    "forced": False,
    "born_us": 10,
    "stored_us": 20,
    "due_us": 30,
    "picked_us": 30,
    "delivered_us": 30,
    "pulled_us": 30,
    "acked_us": 30,
}
WAITING = GOOD | dict.fromkeys(("picked_us", "delivered_us", "pulled_us", "acked_us")) | {"state": "pending"}
INSTANTS = [name for name in GOOD if name.endswith("_us")]
SCHEMA = StructType([*DELIVERIES.fields, StructField("unreadable", StringType())])

FAULTS: list[tuple[dict[str, Any], str]] = [
    (GOOD | {"message_id": None}, "no message_id"),
    (GOOD | {"message_id": ""}, "no message_id"),
    (GOOD | {"due_us": None}, "no due_us"),
    (GOOD | {"run": None}, "no run"),
    (GOOD | {"state": None}, "state is none of delivered, pending, cancelled, expired, lost"),
    (GOOD | {"state": "Delivered"}, "state is none of delivered, pending, cancelled, expired, lost"),
    (GOOD | {"delivered_us": None}, "delivered without delivered_us"),
    *((GOOD | {"state": state}, "delivered_us of what was not delivered") for state in STATES[1:]),
    *((GOOD | {name: -1}, f"{name} is negative") for name in INSTANTS),
    *((GOOD | {name: YEAR_10000_US}, f"{name} is beyond the year 9999") for name in INSTANTS),
    (WAITING | {"due_us": -5}, "due_us is negative"),
    (GOOD | {"unreadable": "size is not a number", "message_id": None}, "size is not a number"),
]
GOOD_ONES: list[dict[str, Any]] = [
    GOOD,
    WAITING,
    *(WAITING | {"state": state} for state in STATES[2:]),
    GOOD | dict.fromkeys(INSTANTS, 0),
    GOOD | dict.fromkeys(INSTANTS, YEAR_10000_US - 1),
    GOOD | dict.fromkeys(("born_us", "stored_us", "picked_us", "pulled_us", "acked_us", "level", "forced")),
]
ODD: list[tuple[dict[str, Any], list[str]]] = [
    (GOOD | {"born_us": 21}, ["skewed"]),
    (GOOD | {"stored_us": 31, "born_us": 31}, ["stored after due"]),
    (GOOD | {"stored_us": 31, "born_us": 31, "scheme": "absolute"}, []),
    (GOOD | {"picked_us": 29}, ["picked before due"]),
    (GOOD | {"picked_us": 29, "forced": None}, ["picked before due"]),
    (GOOD | {"picked_us": 29, "delivered_us": 29, "forced": True}, []),
    (GOOD | {"delivered_us": 29}, ["delivered before picked"]),
    (GOOD | {"pulled_us": 29}, ["pulled before delivered"]),
    (GOOD | {"acked_us": 29}, ["acknowledged before pulled"]),
    (GOOD | {"pulled_us": None, "acked_us": 1}, []),
    (GOOD | {"born_us": 25, "acked_us": 29}, ["skewed", "acknowledged before pulled"]),
]


def frame(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    return spark.createDataFrame([tuple(row.get(name) for name in SCHEMA.names) for row in rows], SCHEMA)


def made(read: int = 0, kept: int = 0, dropped: Sequence[Drop] = ()) -> Quality:
    return Quality(read=read, kept=kept, dropped=list(dropped), skewed=0, disorder=[], broken=[])


def test_each_fault_has_its_reason_and_the_rest_has_none(spark: SparkSession) -> None:
    rows = frame(spark, *(row for row, _ in FAULTS), *GOOD_ONES).coalesce(1)
    found = [row[0] for row in rows.select(quality.fault(rows)).collect()]
    assert found == [reason for _, reason in FAULTS] + [None] * len(GOOD_ONES)


def test_what_is_good_is_kept_in_the_columns_of_a_ledger(spark: SparkSession) -> None:
    rows = frame(spark, *(row for row, _ in FAULTS), *GOOD_ONES)
    kept = quality.kept(rows)
    assert kept.schema == DELIVERIES
    assert kept.count() == len(GOOD_ONES)


def test_nothing_is_looked_at_again_where_nothing_was_dropped(spark: SparkSession) -> None:
    rows = frame(spark, GOOD, GOOD | {"due_us": None})
    assert quality.kept(rows, made(read=2, kept=2)).count() == 2
    assert quality.kept(rows, made(read=2, kept=1, dropped=[Drop(reason="no due_us", rows=1)])).count() == 1


def test_everything_is_counted_in_one_pass(spark: SparkSession) -> None:
    rows = frame(
        spark,
        *(row for row, _ in FAULTS),
        *GOOD_ONES,
        *(row for row, _ in ODD),
        GOOD | {"born_us": 21, "acked_us": 29, "message_id": None},  # odd, but it does not count any more
    )
    broken = [BrokenSource(source="x", reason="y")]
    found = quality.assess(rows, broken)
    assert (found.read, found.kept) == (
        len(FAULTS) + len(GOOD_ONES) + len(ODD) + 1,
        len(GOOD_ONES) + len(ODD),
    )
    assert found.broken == broken
    reasons = [reason for _, reason in FAULTS] + ["no message_id"]
    assert {drop.reason: drop.rows for drop in found.dropped} == {
        each: reasons.count(each) for each in reasons
    }
    assert found.dropped == sorted(found.dropped, key=lambda drop: (-drop.rows, drop.reason))
    odd = [name for _, names in ODD for name in names]
    assert found.skewed == odd.count("skewed")
    counts = {name: odd.count(name) for name in odd if name != "skewed"}
    assert {drop.reason: drop.rows for drop in found.disorder} == counts
    assert [drop.reason for drop in found.disorder][:2] == ["acknowledged before pulled", "picked before due"]


def test_an_empty_ledger_is_of_good_quality(spark: SparkSession) -> None:
    found = quality.assess(frame(spark).drop("unreadable"))
    assert found == made()
    quality.check(found, 0)


def test_the_filter_moves_no_rows(spark: SparkSession) -> None:
    rows = spark.range(9, numPartitions=3).select(
        *(F.col("id").cast(field.dataType).alias(field.name) for field in DELIVERIES)
    )
    plan = quality.kept(rows)._jdf.queryExecution().executedPlan().toString()
    assert "Filter" in plan
    assert "Exchange" not in plan
    assert "Python" not in plan


@pytest.mark.parametrize(
    ("read", "kept", "limit"), [(100, 99, 0.01), (0, 0, 0.0), (100, 1, 0.99), (2, 2, 0.0)]
)
def test_rows_may_be_dropped_up_to_the_limit(read: int, kept: int, limit: float) -> None:
    quality.check(made(read=read, kept=kept), limit)


def test_beyond_the_limit_the_reasons_are_said() -> None:
    dropped = [Drop(reason="no due_us", rows=1_200), Drop(reason="acked_us is negative", rows=34)]
    bad = made(read=100_000, kept=98_766, dropped=dropped)
    with pytest.raises(RefusedError) as refused:
        quality.check(bad)
    assert str(refused.value) == (
        "1,234 of 100,000 rows (1.23%) cannot be used, and at most 1% may be dropped: no due_us: 1,200;"
        " acked_us is negative: 34"
    )
    quality.check(bad, 0.02)
    quality.check(made(read=100, kept=99, dropped=dropped))


def test_if_nothing_is_left_no_limit_helps() -> None:
    with pytest.raises(
        RefusedError, match=r"^3 of 3 rows \(100.00%\) cannot be used, and nothing is left: no run: 3$"
    ):
        quality.check(made(read=3, kept=0, dropped=[Drop(reason="no run", rows=3)]), 1.0)
