"""``mocketmq report`` as a user runs it: its output, files and exit codes."""

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pyspark
import pytest
from click.testing import Result
from pyspark.sql import SparkSession

from mocketmq import Client
from mocketmq.cli import commands
from mocketmq_report import command
from mocketmq_report.document import Report
from tests.support.command_line import runner
from tests.support.process import clean_environment, forked_broker
from tests.support.readme import examples
from tests.support.spark import Running

LEDGER = Path(__file__).with_name("golden") / "ledger.csv"


def report(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mocketmq", "report", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment() | {"COLUMNS": "120"} | environment,
    )


Command = Callable[..., Result]


@pytest.fixture
def warm(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run the command in this process, which has a Spark session already."""
    monkeypatch.setattr("mocketmq_report.session.starting", lambda **_: nullcontext(Running(spark)))
    return lambda *arguments: runner().invoke(command.report, [*map(str, arguments)])


PHASES = ["reading", "measuring", "making tables", "writing"]
QUICKER = (
    r"made in \d+\.\d s, most of which Spark took to start: --quick gives the same figures in about a second,"
    r" without Spark and Java"
)


@pytest.mark.slow
def test_report_starts_its_own_spark(tmp_path: Path) -> None:
    done = report(LEDGER, "--out", tmp_path / "report", "--threshold", "level=1 p50 <= 50ms")
    *phases, quicker = done.stderr.splitlines()
    assert (done.returncode, phases) == (0, PHASES)
    assert re.fullmatch(QUICKER, quicker)
    assert "level=1 p50 <= 50ms" in done.stdout
    assert f"written: {tmp_path}/report/report.html" in done.stdout


@pytest.mark.slow
def test_spark_submit_prints_nothing_without_a_report(tmp_path: Path) -> None:
    done = report(tmp_path / "nowhere", "--out", tmp_path / "report")
    assert (done.returncode, done.stdout) == (3, "")
    assert re.fullmatch("reading\nError: there is nothing that can be read: .*\n", done.stderr)


def test_report_is_compared_with_a_baseline(warm: Command, tmp_path: Path) -> None:
    first, second, rollup = tmp_path / "first", tmp_path / "second", tmp_path / "rollup"
    done = warm(LEDGER, "--out", first, "--threshold", "level=1 p50 <= 50ms", "--rollup", rollup)
    phases = ["reading", "measuring", "rolling up", "making tables", "writing"]
    *told, quicker = done.stderr.splitlines()
    assert (done.exit_code, told) == (0, phases)
    assert re.fullmatch(QUICKER, quicker)
    assert "level=1 p50 <= 50ms" in done.stdout
    assert f"written: {first}/report.html" in done.stdout
    assert sorted(path.name for path in first.iterdir()) == [
        "junit.xml",
        "report.html",
        "report.json",
        "report.md",
    ]
    rules = ("--fail-if", "p99 < 0.9x", "--fail-if", "lost < +1")
    options = ("--out", second, "--compare", first / "report.json", "--json", "--percentiles", "bins")
    again = warm(rollup, *options, *rules)
    assert (again.exit_code, again.stderr.splitlines()[:-1]) == (1, ["reading", "making tables", "writing"])
    made = json.loads(again.stdout)
    assert made == json.loads((second / "report.json").read_text())
    assert [each["passed"] for each in made["comparison"]["judgements"]] == [True, False]
    was = json.loads((first / "report.json").read_text())
    assert [each["sent"] for each in made["reconciliation"]] == [
        each["sent"] for each in was["reconciliation"]
    ]
    assert made["header"]["method"] == "bins"


async def test_report_of_the_readme_runs(
    warm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [example] = examples("report")
    by_spark, quick = re.findall("^mocketmq report (.+)$", example, re.MULTILINE)
    assert quick == f"{by_spark} --quick"
    monkeypatch.chdir(tmp_path)
    async with forked_broker("--clock", "manual", "--data", "build/first") as broker:
        async with Client(broker.url) as client:
            await client.send("orders", "unpaid", delay_level=16)
            await client.advance("30m")
        made = []
        for command_line in (by_spark, quick):
            done = await asyncio.to_thread(warm, *shlex.split(command_line))
            assert (done.exit_code, "max <= 50ms" in done.stdout) == (0, True)
            made.append(json.loads((tmp_path / "mocketmq-report/report.json").read_bytes()))
    assert made[0]["passed"]
    assert (made[0]["header"]["spark"], made[1]["header"]["spark"]) == (pyspark.__version__, "none")
    for each in made:
        del each["header"]["spark"], each["header"]["created_wall_us"]
        for run in each["header"]["runs"]:
            del run["as_of_us"]  # differs, because the broker goes on running
    assert made[0] == made[1]


@pytest.mark.usefixtures("warm")
def test_the_demo_ends_with_a_report_of_its_day(tmp_path: Path) -> None:
    done = runner().invoke(commands, ["demo", "--messages", "200", "--report", str(tmp_path / "report")])
    assert (done.exit_code, "repeats == 0" in done.stdout) == (0, True)
    made = msgspec.json.decode((tmp_path / "report/report.json").read_bytes(), type=Report)
    assert made.passed and not made.header.is_performance
    assert made.causes == []  # consumers receive at once what each clock move delivers
    assert [row.sent for row in made.reconciliation if row.dimension == "total"] >= [200]
    assert len([row for row in made.lateness if row.dimension == "level"]) == 18


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Missing argument 'DATA...'"),
        (("x", "--threshold", "p99 <= 50"), "did you mean 50ms?"),
        (
            ("x", "--threshold", "level=3 p99 <= 50ms", "--fail-if", "p99 > 1.5x"),
            "--fail-if needs a baseline",
        ),
        (("x", "--compare", "y", "--fail-if", "p99 > 50ms"), "is not a limit relative to the baseline"),
        (("x", "--thresholds", "nowhere"), "File 'nowhere' does not exist"),
        (("x", "--max-dropped", "1"), "the share is '1'; allowed: 0% to 100%"),
        (("x", "--on-time", "soon"), "allowed: a duration such as 200ms"),
        (("x", "y", "--follow"), "give only its data directory"),
        (("x", "--quick", "--master", "local"), "--quick does not use Spark"),
        (("x", "--class-archive", "y", "--quick"), "it cannot be combined with --quick or --follow"),
        (("x", "--class-archive", "y", "--follow"), "it cannot be combined with --quick or --follow"),
    ],
)
def test_wrong_usage_is_refused_before_spark_starts(
    arguments: tuple[str, ...], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mocketmq_report.session.starting", None)
    done = runner().invoke(command.report, arguments)
    assert done.exit_code == 2, done.stderr
    assert sentence in " ".join(re.sub("[│\n]", " ", done.stderr).split())


def test_failed_job_exits_with_3_and_a_sentence(warm: Command, tmp_path: Path) -> None:
    done = warm(tmp_path / "nowhere", "--out", tmp_path / "report")
    assert (done.exit_code, done.stdout) == (3, "")
    assert re.fullmatch("reading\nError: there is nothing that can be read: .*\n", done.stderr)
    assert not (tmp_path / "report").exists()


def test_missing_java_is_named(tmp_path: Path) -> None:
    done = report(LEDGER, JAVA_HOME=str(tmp_path))
    assert done.returncode == 3
    assert "install a Java runtime 17 or newer" in done.stderr
    assert "Or give --quick: it makes the same report without Spark and Java" in done.stderr


def test_a_large_ledger_or_a_cluster_is_not_told_of_quick_reports(
    warm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--quick" not in warm(LEDGER, "--out", tmp_path, "--master", "local[2]").stderr
    assert "--quick" not in warm(LEDGER, "--out", tmp_path, "--quick").stderr
    monkeypatch.setattr(command, "_QUICK_ROWS", 3)
    assert "--quick" not in warm(LEDGER, "--out", tmp_path).stderr


def test_missing_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text(
        "raise ModuleNotFoundError('No module named pyspark', name='pyspark')"
    )
    done = report(LEDGER, PYTHONPATH=str(tmp_path))
    assert done.returncode == 3
    assert "pyspark is not installed: install mocketmq with its extra 'report'" in done.stderr


def test_unwritable_page_is_refused_before_the_report(tmp_path: Path) -> None:
    shutil.copy(LEDGER, tmp_path / "in-the-way")
    done = report(LEDGER, "--out", tmp_path / "in-the-way")
    assert done.returncode == 3
    assert "in-the-way cannot be written: it is a file; give a directory" in done.stderr
