"""Rollups that cannot be read. ``test_tables`` compares the content of others."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from mocketmq_report.compute import rollup
from mocketmq_report.compute.rollup import BrokenRollupError
from mocketmq_report.ledger.frames import DELIVERIES, MOVES, RUNS, LedgerFrames


@pytest.fixture(scope="module")
def saved(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The rollup of a run without deliveries, written twice."""
    run = ("a1", "a1", "here", "0.4", "h", "exact", "real", "1s", "full", 1, 1, 2)
    frames = (
        spark.createDataFrame(rows, schema) for rows, schema in (([], DELIVERIES), ([run], RUNS), ([], MOVES))
    )
    ledger = LedgerFrames(*frames)
    path = str(tmp_path_factory.mktemp("rollup") / "one")
    told: list[tuple[str, int, int]] = []
    for _ in range(2):
        told.clear()
        rollup.save(ledger, path, lambda *each: told.append(each))
    assert [(done, total) for _, done, total in told] == [(n, 10) for n in range(10)]
    return path


def test_what_was_saved_is_a_rollup(spark: SparkSession, saved: str) -> None:
    url = Path(saved).as_uri().replace("file:///", "file:/")
    folder = str(Path(saved).parent)
    assert rollup.find(spark, [saved]) == rollup.find(spark, [folder]) == rollup.find(spark, [url]) == [url]
    assert rollup.find(spark, [__file__, "nowhere"]) == []
    with pytest.raises(
        BrokenRollupError, match=r"^rollups are reported by themselves, and nowhere is none: "
    ):
        rollup.find(spark, [saved, "nowhere"])
    found = rollup.load(spark, [saved])
    assert [row.run for row in found.runs.collect()] == ["a1"]
    assert found.summary.lateness.count() == 0


def test_a_run_counts_once(spark: SparkSession, saved: str) -> None:
    with pytest.raises(BrokenRollupError) as raised:
        rollup.load(spark, [saved, saved])
    assert str(raised.value) == (
        "run a1 is in more than one of the rollups and would be counted twice; give only one of them"
    )


def test_one_that_is_not_there(spark: SparkSession, saved: str) -> None:
    with pytest.raises(BrokenRollupError, match=r"^the rollups cannot be read: .*elsewhere/about"):
        rollup.load(spark, [saved, f"{saved}/elsewhere"])


def test_one_that_was_not_finished(spark: SparkSession, saved: str) -> None:
    about = spark.read.parquet(f"{saved}/about").withColumn("is_whole", F.lit(False))
    about.localCheckpoint().write.mode("overwrite").parquet(f"{saved}/about")
    with pytest.raises(BrokenRollupError) as raised:
        rollup.load(spark, [saved])
    assert str(raised.value) == (
        f"the rollup {saved} was not written to its end; write it again from the ledger"
    )
