"""Rows are dropped with a reason, and odd rows are counted."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from mocketmq.errors import RefusedError
from mocketmq_report.compute.partial import merge
from mocketmq_report.compute.summary import SHAPES
from mocketmq_report.document import Drop, Quality
from mocketmq_report.ledger import quality
from mocketmq_report.ledger.columns import DELIVERIES, STATES
from mocketmq_report.ledger.rows import Rows

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
SCHEMA = pa.schema([*DELIVERIES, ("unreadable", pa.string())])
EMPTY = pa.RecordBatch.from_pylist([], SCHEMA)

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


def rows(*dicts: dict[str, Any]) -> Rows:
    return Rows.of(pa.Table.from_pylist([*dicts], SCHEMA).to_batches() or [EMPTY])


def assessed(*dicts: dict[str, Any]) -> Quality:
    """Return the quality of these rows, as the kernel sums it."""
    found = rows(*dicts)
    reasons = quality.faults(found)
    good = found.where(reasons.is_null().to_numpy(zero_copy_only=False))
    faults = pa.table({"reason": reasons, "count": [1] * len(found)})
    odd = dict(quality.odd(good))
    merged = merge([faults], SHAPES["faults"])
    return quality.quality(merged, pa.table({"name": [*odd], "count": [*odd.values()]}))


def made(read: int = 0, kept: int = 0, dropped: Sequence[Drop] = ()) -> Quality:
    return Quality(read=read, kept=kept, dropped=list(dropped), skewed=0, disorder=[], broken=[])


def test_each_bad_row_has_its_reason() -> None:
    found = quality.faults(rows(*(row for row, _ in FAULTS), *GOOD_ONES)).to_pylist()
    assert found == [reason for _, reason in FAULTS] + [None] * len(GOOD_ONES)


def test_rows_are_counted_in_one_pass() -> None:
    found = assessed(
        *(row for row, _ in FAULTS),
        *GOOD_ONES,
        *(row for row, _ in ODD),
        GOOD | {"born_us": 21, "acked_us": 29, "message_id": None},  # odd, but dropped, so not counted as odd
    )
    assert (found.read, found.kept) == (
        len(FAULTS) + len(GOOD_ONES) + len(ODD) + 1,
        len(GOOD_ONES) + len(ODD),
    )
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


def test_an_empty_ledger_is_of_good_quality() -> None:
    found = assessed()
    assert found == made()
    quality.check(found, 0)


@pytest.mark.parametrize(
    ("read", "kept", "limit"), [(100, 99, 0.01), (0, 0, 0.0), (100, 1, 0.99), (2, 2, 0.0)]
)
def test_rows_may_be_dropped_up_to_the_limit(read: int, kept: int, limit: float) -> None:
    quality.check(made(read=read, kept=kept), limit)


def test_exceeding_the_limit_lists_the_reasons() -> None:
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


def test_a_report_without_usable_rows_fails_whatever_the_limit() -> None:
    with pytest.raises(RefusedError, match=r"^3 of 3 rows \(100.00%\) .*no run: 3$"):
        quality.check(made(read=3, kept=0, dropped=[Drop(reason="no run", rows=3)]), 1.0)
