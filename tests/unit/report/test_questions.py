"""Questions about a ledger, in Arrow and SQL: what is read, what is refused."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from mocketmq.cli import commands
from mocketmq.cli.exit_codes import Exit
from mocketmq.errors import InvalidArgumentError
from mocketmq_report.ledger.columns import DELIVERIES, MOVES, RUNS, STRUCK
from mocketmq_report.ledger.ledger import BrokenLedgerError
from mocketmq_report.questions.arrow import read_arrow
from mocketmq_report.questions.sql import QueryError, ask
from tests.support.command_line import runner
from tests.support.ledger_rows import rows_of
from tests.support.ledgers import DAY_US, START_US, write_parquet
from tests.support.stores import STORE, MadeStore

ESCAPES = "\x1b[2J\x07"


class Asked(NamedTuple):
    code: int
    stdout: str
    stderr: str


def sql(*args: str | Path, stdin: str | None = None) -> Asked:
    done = runner().invoke(commands, ["sql", *map(str, args)], input=stdin)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return Asked(done.exit_code, done.stdout, done.stderr)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    made = MadeStore(tmp_path / "mocketmq-data")
    for number in range(3):
        made.deliver(number * 2 + 1, number, level=number + 1)
    made.park(90, level=3)
    return made.data


def test_arrow_has_the_tables_of_the_ledger(data: Path, tmp_path: Path) -> None:
    from mocketmq_report.ledger import sources

    for table, schema in {"deliveries": DELIVERIES, "runs": RUNS, "moves": MOVES, "faults": STRUCK}.items():
        assert read_arrow(data, table=table).schema == schema
    assert read_arrow(data).to_pylist() == rows_of(sources.read([str(data)]).ledger)
    assert read_arrow(data, table="runs")["run"].to_pylist() == [STORE]
    write_parquet(tmp_path / "exported", 50, start_us=START_US + DAY_US)
    assert read_arrow(data, tmp_path / "exported").num_rows == 54
    assert read_arrow(data, columns=["run"])["run"].unique().to_pylist() == [STORE]
    assert read_arrow(tmp_path / "exported", columns=["fault"])["fault"].null_count == 50


def test_unusable_rows_of_files_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("message_id,due_us,delivered_us\nA,1000,2000\n,1000,2000\nB,soon,2000\nC,1000,\n")
    found = read_arrow(file, columns=["message_id", "state", "run"])
    assert found.to_pylist() == [
        {"message_id": "A", "state": "delivered", "run": "orders"},
        {"message_id": "C", "state": "pending", "run": "orders"},
    ]


def test_data_that_cannot_be_read_is_an_error_even_beside_good_data(data: Path, tmp_path: Path) -> None:
    with pytest.raises(BrokenLedgerError, match="nowhere: it cannot be read"):
        read_arrow(data, tmp_path / "nowhere")
    with pytest.raises(BrokenLedgerError, match="s3a://bucket/ledger is not on this machine: allowed are"):
        read_arrow(data, "s3a://bucket/ledger")
    with pytest.raises(InvalidArgumentError, match="the table is 'rows'; allowed: deliveries, runs,"):
        read_arrow(data, table="rows")
    with pytest.raises(InvalidArgumentError, match="a column of runs is 'due_us'; allowed: run,"):
        read_arrow(data, table="runs", columns=["due_us"])


def test_answers_are_tables_json_and_csv(data: Path) -> None:
    query = "SELECT topic, count(*) AS n, max(level) / 2 AS half, NULL AS nothing FROM deliveries GROUP BY 1"
    assert sql(query, data) == (
        Exit.DONE,
        "topic    n   half   nothing\n───────────────────────────\norders   4    1.5   –\n",
        "",
    )
    rows = [{"topic": "orders", "n": 4, "half": 1.5, "nothing": None}]
    assert json.loads(sql(query, data, "--json").stdout) == rows
    assert sql(query, data, "--csv").stdout == "topic,n,half,nothing\norders,4,1.5,\n"
    assert sql("-", data, "--csv", stdin=query).stdout == "topic,n,half,nothing\norders,4,1.5,\n"
    assert "more than 1,000,000 characters" in sql("-", data, stdin=" " * 1_000_001).stderr
    assert sql("FROM deliveries WHERE level = 9", data).stdout == "no rows\n"
    assert sql("FROM deliveries WHERE level = 9", data, "--json").stdout == "[]\n"


def test_the_broker_s_default_directory_is_asked(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data.parent)
    assert sql("SELECT count(*) AS n FROM deliveries", "--csv").stdout == "n\n4\n"


def test_values_that_json_lacks(data: Path) -> None:
    query = (
        "SELECT 'nan'::DOUBLE AS a, 1.5::DECIMAL(4, 2) AS b, timestamp_micros(0) AS c, [1, 2] AS d,"
        " 1 AS e, 2 AS e"
    )
    expected = {"a": None, "b": 1.5, "c": "1970-01-01 00:00:00", "d": [1, 2], "e": 1, "e_1": 2}
    assert json.loads(sql(query, data, "--json").stdout) == [expected]


def test_output_is_limited(data: Path) -> None:
    done = sql("SELECT * FROM range(100000000000)", data, "--csv", "--limit", "2")
    assert done == (Exit.DONE, "range\n0\n1\n", "these are the first 2 rows; --limit prints more\n")
    assert sql("SELECT * FROM range(2)", data, "--csv", "--limit", "2").stderr == ""


def test_texts_of_clients_cannot_command_a_terminal(tmp_path: Path) -> None:
    MadeStore(tmp_path / "data").deliver(1, topic=f"orders{ESCAPES}")
    for form in ([], ["--json"], ["--csv"]):
        done = sql('SELECT topic, topic AS "x\x1b[2J" FROM deliveries', tmp_path / "data", *form)
        assert done.code == Exit.DONE
        assert "\x1b" not in done.stdout
        assert "orders" in done.stdout
    assert "\x1b" not in sql(f"SELECT {ESCAPES}", tmp_path / "data").stderr


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("DROP TABLE runs", "DROP"),
        ("INSERT INTO runs SELECT * FROM runs", "INSERT"),
        ("CREATE TABLE t AS FROM runs", "CREATE"),
        ("COPY runs TO 'out.csv'", "COPY"),
        ("ATTACH 'other.db'", "ATTACH"),
        ("INSTALL httpfs", "LOAD"),
        ("SET memory_limit = '9GB'", "SET"),
        ("SELECT 1; SELECT 2", "SELECT, SELECT"),
        ("", "nothing"),
    ],
)
def test_a_query_can_only_select(data: Path, query: str, kind: str) -> None:
    with pytest.raises(QueryError, match=f"the query is {kind}; allowed: one SELECT"):
        ask(query, [str(data)], 10)


@pytest.mark.parametrize(
    "query",
    [
        "FROM read_csv('{file}')",
        "FROM '{file}'",
        "FROM read_text('{file}')",
        "FROM glob('{folder}/*')",
        "FROM ledger",  # a variable of the program
    ],
)
def test_a_query_sees_nothing_but_the_ledger(data: Path, tmp_path: Path, query: str) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("word\nsecret\n")
    with pytest.raises(QueryError, match=r"disabled by configuration|does not exist"):
        ask(query.format(file=file, folder=tmp_path), [str(data)], 10)


def test_a_query_that_needs_too_much_memory_is_told_so(data: Path) -> None:
    with pytest.raises(QueryError, match="the query needs more than 1GB of memory: select fewer rows"):
        ask("SELECT i, repeat('x', 1000) || i AS t FROM range(4000000) r(i) ORDER BY t", [str(data)], 10)


def test_errors_have_a_sentence_and_an_exit_code(data: Path, tmp_path: Path) -> None:
    done = sql("SELECT nosuch FROM deliveries", data)
    assert done.code == Exit.USAGE
    assert 'Error: Binder Error: Referenced column "nosuch" not found' in done.stderr
    done = sql("FROM runs", tmp_path / "nowhere")
    assert done.code == Exit.NOT_STARTED
    assert done.stderr.endswith("nowhere: it cannot be read: No such file or directory\n")


def test_damage_found_while_duckdb_reads_keeps_its_error(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mocketmq_report.ledger import ledger as module

    def damaged(*_: object) -> Iterator[pa.RecordBatch]:
        yield from DELIVERIES.empty_table().to_batches()
        raise module.DamagedPartError("part-0.parquet is damaged")

    monkeypatch.setattr(module.StoreRange, "batches", damaged)
    with pytest.raises(module.DamagedPartError, match=r"part-0\.parquet is damaged"):
        ask("SELECT count(*) FROM deliveries", [str(data)], 10)


def test_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mocketmq_report.questions.sql", raising=False)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    sentence = "Error: SQL needs duckdb, which is not installed: install mocketmq with its extra 'sql'\n"
    assert sql("FROM runs", tmp_path) == (Exit.USAGE, "", sentence)


def test_a_ledger_without_rows_has_all_columns(tmp_path: Path) -> None:
    MadeStore(tmp_path / "data")
    assert read_arrow(tmp_path / "data") == DELIVERIES.empty_table()
    assert read_arrow(tmp_path / "data", where=[("level", "=", 1)]).num_rows == 0
    assert isinstance(read_arrow(tmp_path / "data", table="faults"), pa.Table)
    assert ask("SELECT count(*) FROM deliveries", [str(tmp_path / "data")], 10).rows == [(0,)]
