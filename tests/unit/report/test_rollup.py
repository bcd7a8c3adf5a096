"""Unreadable rollups. ``test_tables`` compares the content of readable rollups."""

from pathlib import Path

import pyarrow as pa
import pytest

from mocketmq_report.compute import rollup
from mocketmq_report.compute.one_pass import measure
from mocketmq_report.compute.rollup import BrokenRollupError
from mocketmq_report.compute.tables import CUTOFFS_US
from mocketmq_report.ledger.columns import MOVES, RUNS
from mocketmq_report.ledger.ledger import Extent, Ledger
from mocketmq_report.ledger.places import Places
from mocketmq_report.ledger.table_files import TableFiles
from mocketmq_report.ledger.work import carry_here
from mocketmq_report.progress import ignore_progress

FILES = TableFiles(None)
PLACES = Places(None)


@pytest.fixture
def saved(tmp_path: Path) -> str:
    """Write the rollup of a run without deliveries twice."""
    values = ("a1", "a1", "here", "0.4", "h", "exact", "real", "1s", "full", 1, 1, 2)
    run = dict(zip(RUNS.names, values, strict=True))
    runs = pa.Table.from_pylist([run], RUNS)
    ledger = Ledger([], runs, MOVES.empty_table(), Extent(0, 0, 0))
    path = str(tmp_path / "rollups" / "one")
    measured = measure(ledger, carry_here, (), None, CUTOFFS_US)
    for _ in range(2):
        rollup.save(measured, ledger.runs, ledger.moves, path, FILES, ignore_progress)
    return path


def test_a_saved_rollup_is_found(saved: str) -> None:
    url = Path(saved).as_uri().replace("file:///", "file:/")
    folder = str(Path(saved).parent)
    assert (
        rollup.find_rollups(PLACES, [saved])
        == rollup.find_rollups(PLACES, [folder])
        == rollup.find_rollups(PLACES, [url])
        == [saved]
    )
    assert rollup.find_rollups(PLACES, [__file__, "nowhere"]) == []
    with pytest.raises(BrokenRollupError, match="nowhere"):
        rollup.find_rollups(PLACES, [saved, "nowhere"])
    found = rollup.load([saved], FILES)
    assert found.runs["run"].to_pylist() == ["a1"]
    assert found.measured.summary.lateness.num_rows == 0


def test_a_run_counts_once(saved: str) -> None:
    with pytest.raises(BrokenRollupError) as raised:
        rollup.load([saved, saved], FILES)
    assert str(raised.value) == (
        "run a1 is in more than one of the rollups and would be counted twice; give only one of them"
    )


def test_a_missing_rollup(saved: str) -> None:
    with pytest.raises(BrokenRollupError, match="elsewhere/about"):
        rollup.load([saved, f"{saved}/elsewhere"], FILES)


def test_an_incomplete_rollup(saved: str) -> None:
    FILES.write(pa.table({"path": [saved], "is_whole": [False]}), f"{saved}/about")
    with pytest.raises(BrokenRollupError) as raised:
        rollup.load([saved], FILES)
    assert str(raised.value) == (
        f"the rollup {saved} was not written to its end; write it again from the ledger"
    )
