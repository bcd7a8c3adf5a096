"""Conditions hold for the same rows, wherever they are applied: to Arrow rows, in SQLite, by row groups."""

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mocketmq.errors import InvalidArgumentError
from mocketmq_report.ledger import sources
from mocketmq_report.ledger.columns import DELIVERIES, OPTIONAL
from mocketmq_report.ledger.conditions import checked
from mocketmq_report.ledger.ledger import RowGroups, StoreRange, WithoutRuns, narrowed
from mocketmq_report.questions.arrow import read_arrow
from tests.support.ledgers import DAY_US, START_US, write_parquet, write_store
from tests.support.stores import MadeStore

COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, values: value in values,
}
COLUMNS = [field for field in DELIVERIES if field.name not in OPTIONAL]


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """An export, a store and a file from elsewhere."""
    folder = tmp_path_factory.mktemp("ledgers")
    write_parquet(folder / "exported", 600, days=3, runs=2)
    write_store(folder / "store", 600, days=3, runs=2)
    pq.write_table(read_arrow(folder / "exported"), folder / "elsewhere.parquet")
    return [str(folder / name) for name in ("exported", "store", "elsewhere.parquet")]


def holds(row: dict[str, Any], column: str, how: str, value: Any) -> bool:
    """Evaluate a condition independently."""
    if how.startswith("is "):
        return (row[column] is None) == (how == "is null")
    return row[column] is not None and COMPARED[how](row[column], value)


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_exactly_the_matching_rows_are_read(ledgers: list[str], data: st.DataObject) -> None:
    ledger = data.draw(st.sampled_from(ledgers))
    rows = read_arrow(ledger).to_pylist()
    where = []
    for _ in range(data.draw(st.integers(1, 3))):
        column = data.draw(st.sampled_from(COLUMNS)).name
        known = sorted({row[column] for row in rows} - {None})
        some = st.sampled_from(known or [0])
        if known and isinstance(known[0], int) and not isinstance(known[0], bool):
            some |= st.sampled_from([known[0] - 1, known[-1] + 1, 1 << 40, -1])
        how = data.draw(st.sampled_from([*COMPARED, "is null", "is not null"]))
        where.append((column, how, data.draw(st.lists(some, max_size=4) if how == "in" else some)))
    expected = [row for row in rows if all(holds(row, *each) for each in where)]
    assert read_arrow(ledger, where=where).to_pylist() == expected
    shown = [{"topic": row["topic"]} for row in expected]
    assert read_arrow(ledger, columns=["topic"], where=where).to_pylist() == shown


def test_row_groups_of_other_days_are_not_read(tmp_path: Path) -> None:
    write_parquet(tmp_path / "all", 3_000, days=3)
    parts = sources.read([str(tmp_path / "all")]).ledger.parts
    second_day = [
        checked("due_us", ">=", START_US + DAY_US, DELIVERIES),
        checked("due_us", "<", START_US + 2 * DAY_US, DELIVERIES),
    ]
    left = [part for part in parts if narrowed(part, second_day)]
    assert all(isinstance(part, RowGroups) for part in left)
    assert 0 < len(left) < len(parts)
    assert not [part for part in parts if narrowed(part, [checked("topic", "=", "zebras", DELIVERIES)])]


def test_sqlite_selects_the_rows_of_a_store(tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "data")
    for number, topic in enumerate(["orders", "it's", "orders"]):
        store.deliver(number * 2 + 1, number, topic=topic)
    [part, *_] = sources.read([str(tmp_path / "data")]).ledger.parts
    assert isinstance(part, StoreRange)
    for value in ("it's", "' OR ''='", "nul\0"):
        condition = checked("topic", "=", value, DELIVERIES)
        assert read_arrow(tmp_path / "data", where=[condition]).num_rows == (value == "it's")
    assert condition.in_sqlite() is None  # SQLite's text would end at the NUL
    quoted = narrowed(part, [checked("topic", "in", ["it's"], DELIVERIES)])
    assert isinstance(quoted, StoreRange)
    assert [each.in_sqlite() for each in quoted.where] == ["topic IN ('it''s')"]


def test_a_run_that_counts_elsewhere_is_left_out_with_conditions_too(tmp_path: Path) -> None:
    write_parquet(tmp_path / "one", 400, days=2)
    write_store(tmp_path / "two", 400, runs=2)  # of which the first is that of the longer export
    data = [str(tmp_path / name) for name in ("one", "two")]
    parts = sources.read(data).ledger.parts
    assert any(isinstance(part, WithoutRuns) for part in parts)
    rows = read_arrow(*data).to_pylist()
    where = [("level", "=", 1), ("state", "=", "delivered")]
    assert read_arrow(*data, where=where).to_pylist() == [
        row for row in rows if (row["level"], row["state"]) == (1, "delivered")
    ]


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        (("levels", "=", 1), "the column of a condition is 'levels'; allowed: run, state,"),
        (("level", "==", 1), "the operator of level is '=='; allowed: =, !=,"),
        (("level", "=", "1"), "the value of level is '1'; allowed: a value of type int"),
        (("level", "=", True), "the value of level is True; allowed: a value of type int"),
        (("level", "in", 1), None),
        (("topic", "=", None), "the value of topic is None; allowed: a value of type str"),
        (
            ("due_us", "<", 1 << 63),
            "the value of due_us is 9223372036854775808; allowed: a value of type int",
        ),
        (("level", "in", list(range(1001))), "allowed: a list of at most 1,000 values of type int"),
    ],
)
def test_wrong_conditions_are_refused(condition: tuple[str, str, Any], sentence: str | None) -> None:
    if sentence is None:
        assert checked(*condition, DELIVERIES).value == [1]
        return
    with pytest.raises(InvalidArgumentError) as caught:
        checked(*condition, DELIVERIES)
    assert sentence in str(caught.value)
