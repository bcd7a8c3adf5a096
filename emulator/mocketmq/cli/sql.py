"""``mocketmq sql``, which answers questions about the ledger by DuckDB."""

import csv
import json
import math
import sys
from decimal import Decimal
from typing import TYPE_CHECKING

import click

from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.options import examples
from mocketmq.cli.output import show
from mocketmq.cli.table import Table
from mocketmq.cli.text import harmless, harmless_json

if TYPE_CHECKING:
    from mocketmq_report.questions.sql import QueryAnswer

_EXTRA = {"adbc_driver_manager", "adbc_driver_sqlite", "duckdb", "numpy", "pyarrow"}
_LONGEST = 1_000_000  # characters of a query
_NUMBERS = (int, float, Decimal)


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
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            raise
        raise Failure(
            f"SQL needs {error.name}, which is not installed: install mocketmq with its extra 'sql'",
            Exit.USAGE,
        ) from error
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
