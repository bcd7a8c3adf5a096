"""Rollups that cannot be read. ``test_tables`` compares the content of others."""

from pathlib import Path

import pyarrow as pa
import pytest

from mocketmq_report.compute import rollup
from mocketmq_report.compute.one_pass import measure
from mocketmq_report.compute.rollup import BrokenRollupError
from mocketmq_report.compute.tables import CUTOFFS_US
from mocketmq_report.ledger.columns import MOVES, RUNS
from mocketmq_report.ledger.extent import Extent
from mocketmq_report.ledger.ledger import Ledger
from mocketmq_report.ledger.places import Places
from mocketmq_report.ledger.table_files import TableFiles
from mocketmq_report.ledger.work import carry_here

FILES = TableFiles(None)
PLACES = Places(None)


def silent(_what: str, _done: int, _total: int | None) -> None:
    """A callback for progress that nobody watches."""


@pytest.fixture
def saved(tmp_path: Path) -> str:
    """The rollup of a run without deliveries, written twice."""
    values = ("a1", "a1", "here", "0.4", "h", "exact", "real", "1s", "full", 1, 1, 2)
    run = dict(zip(RUNS.names, values, strict=True))
    runs = pa.Table.from_pylist([run], RUNS)
    ledger = Ledger([], runs, MOVES.empty_table(), Extent(0, 0, 0))
    path = str(tmp_path / "rollups" / "one")
    measured = measure(ledger, carry_here, (), None, CUTOFFS_US)
    for _ in range(2):
        rollup.save(measured, ledger.runs, ledger.moves, path, FILES, silent)
    return path


def test_what_was_saved_is_a_rollup(saved: str) -> None:
    url = Path(saved).as_uri().replace("file:///", "file:/")
    folder = str(Path(saved).parent)
    assert (
        rollup.find(PLACES, [saved]) == rollup.find(PLACES, [folder]) == rollup.find(PLACES, [url]) == [saved]
    )
    assert rollup.find(PLACES, [__file__, "nowhere"]) == []
    with pytest.raises(BrokenRollupError, match="nowhere"):
        rollup.find(PLACES, [saved, "nowhere"])
    found = rollup.load([saved], FILES)
    assert found.runs["run"].to_pylist() == ["a1"]
    assert found.measured.summary.lateness.num_rows == 0


def test_a_run_counts_once(saved: str) -> None:
    with pytest.raises(BrokenRollupError) as raised:
        rollup.load([saved, saved], FILES)
    assert str(raised.value) == (
        "run a1 is in more than one of the rollups and would be counted twice; give only one of them"
    )


def test_one_that_is_not_there(saved: str) -> None:
    with pytest.raises(BrokenRollupError, match="elsewhere/about"):
        rollup.load([saved, f"{saved}/elsewhere"], FILES)


def test_one_that_was_not_finished(saved: str) -> None:
    FILES.write(pa.table({"path": [saved], "is_whole": [False]}), f"{saved}/about")
    with pytest.raises(BrokenRollupError) as raised:
        rollup.load([saved], FILES)
    assert str(raised.value) == (
        f"the rollup {saved} was not written to its end; write it again from the ledger"
    )
