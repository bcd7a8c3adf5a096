"""``mocketmq export`` and ``mocketmq sql``, which write the ledger as Parquet and run SQL queries on it."""

import csv
import json
import math
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output, show
from mocketmq.cli.progress_line import ProgressLine
from mocketmq.cli.table import Table
from mocketmq.cli.text import harmless, harmless_json

if TYPE_CHECKING:
    from mocketmq_report.questions.sql import QueryAnswer

_PACKAGES = {"adbc_driver_manager", "adbc_driver_sqlite", "duckdb", "numpy", "pyarrow"}
"""Module names of packages in the extras."""
_LONGEST = 1_000_000  # characters of a query
_NUMBERS = (int, float, Decimal)


@click.command(epilog=examples("export mocketmq-data ledger"))
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@click.argument("data", type=click.Path(exists=True, path_type=Path))
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
def export(as_json: bool, data: Path, out: Path) -> None:
    """Write the ledger of DATA as Parquet below the folder OUT.

    DATA is a data directory, or its mocketmq.db; its broker may be running. `mocketmq report` reads the
    result: deliveries by day and run, undelivered messages, runs, and clock moves. Several stores may share a
    folder; exporting a store again replaces its files.
    """
    try:
        from mocketmq_report.interruption import ended_by_signals  # noqa: PLC0415 - part of an extra
        from mocketmq_report.ledger.export import export as write  # noqa: PLC0415
    except ModuleNotFoundError as error:
        _refuse_without("exporting", error, "report")
    with ProgressLine() as meter:
        done = ended_by_signals(lambda: write(data, out, meter))
    told = f"exported {done.rows:,} rows of {done.runs:,} runs to {out}"
    Output(as_json).show(done._asdict(), f"{told}: {done.files:,} files, {done.bytes:,} bytes")


@click.command(
    epilog=examples(
        'sql "SELECT topic, count(*) FROM deliveries GROUP BY topic"',
        'sql "SELECT max(acked_us) FROM deliveries" exported --json',
        'sql "DESCRIBE deliveries"',
    )
)
@click.option("--json", "form", flag_value="json", help="Print the rows as a JSON array of objects.")
@click.option("--csv", "form", flag_value="csv", help="Print the rows as CSV.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000_000),
    default=1_000,
    show_default=True,
    help="Maximum number of rows to print.",
)
@click.argument("query")
@click.argument("data", nargs=-1)
def sql(form: str | None, limit: int, query: str, data: tuple[str, ...]) -> None:
    """Answer a question about the ledger: QUERY, in DuckDB's SQL. `-` reads it from the standard input.

    DATA is as for `mocketmq report`: data directories (by default mocketmq-data), exports and files. The
    tables are deliveries, runs, moves and faults; docs/ledger-format.md describes their columns, and
    docs/questions.md has examples. The query can only read.
    """
    try:
        from mocketmq_report.interruption import ended_by_signals  # noqa: PLC0415 - part of an extra
        from mocketmq_report.ledger.ledger import BrokenLedgerError  # noqa: PLC0415
        from mocketmq_report.questions.sql import QueryError, ask  # noqa: PLC0415
    except ModuleNotFoundError as error:
        _refuse_without("SQL", error, "sql")
    text = sys.stdin.read(_LONGEST + 1) if query == "-" else query
    if len(text) > _LONGEST:
        raise Failure(f"the query has more than {_LONGEST:,} characters", Exit.USAGE)
    try:
        answer = ended_by_signals(lambda: ask(text, data or ("mocketmq-data",), limit))
    except QueryError as error:
        raise Failure(str(error), Exit.USAGE) from error
    except BrokenLedgerError as error:
        raise Failure(str(error), Exit.NOT_STARTED) from error
    _print(answer, form)
    if answer.is_cut:
        click.echo(f"these are the first {limit:,} rows; --limit prints more", err=True)


def _refuse_without(what: str, error: ModuleNotFoundError, extra: str) -> NoReturn:
    """Raise Failure if a package of the extra is not installed; any other missing module is a defect."""
    if error.name is None or error.name.partition(".")[0] not in _PACKAGES:
        raise error
    raise Failure(
        f"{what} needs {error.name}, which is not installed: install mocketmq with its extra {extra!r}",
        Exit.USAGE,
    ) from error


def _print(answer: "QueryAnswer", form: str | None) -> None:
    names = [harmless(name) for name in answer.columns]
    if form == "json":
        rows = [dict(zip(names, map(_json_value, row), strict=True)) for row in answer.rows]
        text = json.dumps(rows, indent=2, ensure_ascii=False, default=str)
        sys.stdout.write(harmless_json(text) + "\n")
    elif form == "csv":
        out = csv.writer(sys.stdout, lineterminator="\n")
        out.writerow(names)
        out.writerows([_field(value) for value in row] for row in answer.rows)
    else:
        columns = zip(names, zip(*answer.rows, strict=True), strict=False)
        is_number = {name for name, values in columns if any(isinstance(each, _NUMBERS) for each in values)}
        titles = [f">{name}" if name in is_number else name for name in names]
        show(Table(titles, answer.rows) if answer.rows else "no rows")


def _json_value(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _field(value: object) -> object:
    return harmless(value, "\n") if isinstance(value, str) else value
