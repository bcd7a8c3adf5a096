"""Messages with several rows: which parts are read a second time."""

from collections.abc import Mapping
from typing import Any

import pytest

from mocketmq_report.compute import kernel
from mocketmq_report.compute.one_pass import Measurements, measure
from mocketmq_report.compute.worst import WORST
from mocketmq_report.ledger.ledger import LedgerPart
from mocketmq_report.ledger.work import Made, Work, carry_here
from tests.support.oracle import Rows
from tests.unit.report.test_tables import RUNS_OF, delivery, ledger_of


class Watched:
    """A carrier that records to which parts it sent work."""

    def __init__(self) -> None:
        self.looks: list[set[int]] = []

    def __call__(self, work: Work[Made], parts: Mapping[int, LedgerPart]) -> Made:
        self.looks.append({*parts})
        return carry_here(work, parts)


def measured(rows: Rows, parts: int) -> tuple[Measurements, set[int]]:
    """Measure rows dealt to the parts in turn; return the result and the parts read twice."""
    carrier = Watched()
    found = measure(ledger_of(rows, RUNS_OF[:1], [], parts), carrier, ())
    return found, carrier.looks[-1]


def numbers(found: Measurements) -> list[Any]:
    return sorted(found.again["parked_offset"].to_pylist())


def behind_the_worst(rows: Rows) -> Rows:
    """Return rows dealt to two parts in turn, after the worst row in part 0, which is read again."""
    return [*(delivery(n, 1 if n % 2 else 1_000_000) for n in range(2 * WORST)), *rows]


def test_part_with_all_rows_of_a_message_is_read_once() -> None:
    rows = behind_the_worst(
        [row for n in (1, 2, 1, 3) for row in (delivery(100 + n, 5), delivery(200 + n, 5))]
    )
    found, again = measured(rows, parts=2)
    assert numbers(found) == [101, 101, 201, 201]
    assert again == {0}


def test_rows_in_several_parts_are_found_once() -> None:
    rows = behind_the_worst([delivery(n, 5) for n in (107, 107, 107, 108, 109, 107, 109, 110)])  # in turn
    found, again = measured(rows, parts=2)
    assert numbers(found) == [107, 107, 107, 107, 109, 109]
    assert again == {0, 1}


def test_rows_in_several_batches_of_a_part_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "BATCH_ROWS", 1)
    found, _ = measured([delivery(n, 5) for n in (1, 1, 2, 1, 3)], parts=1)
    assert numbers(found) == [1, 1, 1]
