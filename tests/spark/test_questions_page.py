"""docs/questions.md: its queries give its answers, by DuckDB and by Spark, on the ledger of a real broker."""

import asyncio
import re
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mocketmq.cli import commands
from mocketmq_report.questions.arrow import read_arrow, scan_arrow
from mocketmq_report.questions.ledger_tables import TABLES
from mocketmq_report.questions.spark_source import register
from mocketmq_report.questions.sql import ask
from tests.support import golden
from tests.support.asked_ledger import leave_asked_ledger
from tests.support.command_line import runner

PAGE = Path(__file__).parents[2] / "docs" / "questions.md"
ANSWERED = re.compile(r"```sql\n(.*?)```\n\n```\n(.*?)```", re.DOTALL)
QUESTIONS = [match[0].strip() for match in ANSWERED.findall(PAGE.read_text())]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> str:
    data = tmp_path_factory.mktemp("asked") / "mocketmq-data"
    asyncio.run(leave_asked_ledger(data))
    return str(data)


@pytest.fixture(scope="module")
def asked_spark(spark: SparkSession, ledger: str) -> SparkSession:
    """A session with the tables of the ledger."""
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", "UTC")
    register(own)
    for table in TABLES:
        own.read.format("mocketmq").option("table", table).load(ledger).createOrReplaceTempView(table)
    return own


def comparable(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def test_the_page_shows_what_the_command_prints(ledger: str) -> None:
    def answered(match: re.Match[str]) -> str:
        done = runner().invoke(commands, ["sql", match[1], ledger])
        assert (done.exit_code, done.stderr) == (0, "")
        return f"```sql\n{match[1]}```\n\n```\n{done.stdout}```"

    assert len(QUESTIONS) == 6
    golden.check(PAGE, ANSWERED.sub(answered, PAGE.read_text()))  # GOLDEN=write updates the answers


@pytest.mark.parametrize("question", QUESTIONS)
def test_spark_answers_as_duckdb_does(asked_spark: SparkSession, ledger: str, question: str) -> None:
    answer = ask(question, [ledger], 100)
    found = asked_spark.sql(question).toArrow()
    assert found.column_names == answer.columns
    rows = [[comparable(value) for value in row.values()] for row in found.to_pylist()]
    assert rows == [[comparable(value) for value in row] for row in answer.rows]
    assert answer.rows


def test_its_python_runs(asked_spark: SparkSession, ledger: str) -> None:
    text = re.sub(r'"(mocketmq-data|monday/|tuesday/|exported)"', f'"{ledger}"', PAGE.read_text())
    by_spark, stream, by_arrow = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {"spark": asked_spark.newSession()}
    exec(by_spark, names)  # noqa: S102 - from the page
    assert names["deliveries"].count() == read_arrow(ledger).num_rows
    assert names["runs"].count() == 1  # one store, given twice
    assert names["spark"].table("deliveries").count() == 6
    exec(stream.splitlines()[0], names)  # noqa: S102
    assert names["stream"].isStreaming
    exec(by_arrow, names)  # noqa: S102
    assert names["late"].num_rows == 6
    assert len(names["runs"]) == 1
    with scan_arrow(ledger, table="moves") as batches:
        assert batches.read_all().num_rows > 3
