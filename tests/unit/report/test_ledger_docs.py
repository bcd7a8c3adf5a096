"""The table of columns in docs/ledger-format.md is generated from ``ledger/columns.py``."""

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from mocketmq_report.ledger.columns import DELIVERY_COLUMNS, RUN_COLUMNS
from mocketmq_report.ledger.external_files import NEEDED_COLUMNS
from mocketmq_report.ledger.external_values import ABOUT_RUN
from tests.support import golden

PAGE = Path(__file__).parents[3] / "docs" / "ledger-format.md"
TYPES = {
    pa.string(): "text",
    pa.int64(): "whole number",
    pa.int32(): "whole number",
    pa.bool_(): "`true` or `false`",
}


def table() -> Iterator[str]:
    """Return the table: required columns first, then the others, then columns about a run."""
    yield "| column | type | meaning | if it is missing |"
    yield "|---|---|---|---|"
    columns = {column.name: column for column in DELIVERY_COLUMNS}
    needed = [columns[name] for names in NEEDED_COLUMNS for name in names if name in columns]
    about_run = [column for column in RUN_COLUMNS if column.name in ABOUT_RUN]
    for column in dict.fromkeys([*needed, *DELIVERY_COLUMNS, *about_run]):
        meaning = f"of the run: {column.meaning}" if column in about_run else column.meaning
        yield f"| `{column.name}` | {TYPES[column.type]} | {meaning} | {column.without} |"


def test_the_page_has_every_column() -> None:
    text = PAGE.read_text()
    made = re.sub(r"(?m)^\| column \|(.*\n\|)*.*$", lambda _: "\n".join(table()), text, count=1)
    golden.check(PAGE, made)  # GOLDEN=write updates the table
