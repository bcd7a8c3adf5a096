"""A fixed ledger gives exactly the golden files."""

from pathlib import Path

from pyspark.sql import SparkSession

from mocketmq_report.job import Job, ReportRunner, run
from mocketmq_report.judge.compare import load_report
from mocketmq_report.judge.thresholds import parse_file
from mocketmq_report.report.output import write
from tests.support import golden
from tests.support.spark import Running

GOLDEN = Path(__file__).with_name("golden")


def test_report_of_a_fixed_ledger_matches_the_golden_files(spark: SparkSession, tmp_path: Path) -> None:
    """Two runs with early, lost, cancelled, forced, repeated, dropped and pending rows."""
    ledger = GOLDEN / "ledger.csv"
    job = Job(
        data=[str(ledger)],
        title="golden",
        thresholds=parse_file(GOLDEN / "thresholds.txt"),
        out=str(tmp_path),
    )
    report = run(ReportRunner(Running(spark)), job, lambda *_: None)
    assert not report.passed
    report.header.created_wall_us = 0
    report.header.version = report.header.spark = "0"
    assert {Path(each.source) for each in report.header.runs} == {ledger}
    for each in report.header.runs:
        each.source = ledger.name
    assert write(report, job.out) == f"{tmp_path}/report.html"
    for name in ("report.json", "report.md", "junit.xml"):
        golden.check(GOLDEN / name, (tmp_path / name).read_text())
    assert load_report(tmp_path / "report.json") == report
    assert report.worst[1].message_id in (tmp_path / "report.html").read_text()
