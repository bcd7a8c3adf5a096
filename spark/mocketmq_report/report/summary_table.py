"""Summarizes a report for the terminal: the measured runs, a row per level, judgements, the verdict."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult, group
from rich.table import Table
from rich.text import Text

from mocketmq_report import figures
from mocketmq_report.document import Comparison, Judgement, Lateness, Report
from mocketmq_report.report import by_delay_limits, headline
from mocketmq_report.report.why import is_all_zero, moved, why

_WIDE: Final = 100
"""Minimum width in columns at which the table shows every percentile."""
_MOST_LINES: Final = 10
_DANGER: Final = "bold red"


@group()
def summary(report: Report) -> Iterator[RenderableType]:
    """Make the summary for a console of 80 columns or more."""
    yield Text(figures.harmless(report.header.title), style="bold")
    yield Text(headline.measured(report.header))
    yield Text(headline.computed(report.header))
    for line in _cut(_remarks(report)):
        yield Text(figures.harmless(line), style="yellow")
    if not is_all_zero(report):
        yield ""
        yield _Levels(report)
    for what, reasons in why(report):
        yield ""
        yield Text(what, style="bold")
        yield _table(
            ["", ">share", ">messages", "why"],
            (map(Text, (r.bar, r.share, r.messages, r.words)) for r in reasons),
        )
    if report.delay_limits:
        yield ""
        yield Text(by_delay_limits.sentence(report.delay_limits), style="bold")
        rows = list(by_delay_limits.verdict_rows(report.delay_limits))
        if rows:
            yield _table(by_delay_limits.COLUMNS, (map(Text, row) for row in rows))
    if report.comparison:
        yield ""
        yield from _comparison(report.comparison)
    if judgements := headline.judged(report):
        yield ""
        yield _judgements(judgements)
    yield ""
    yield Text(headline.verdict(report), style="bold green" if report.passed else _DANGER)


def _remarks(report: Report) -> list[str]:
    quality = report.quality
    remarks = list(report.header.warnings)
    if said := moved(report):
        remarks.append(said)
    remarks += [f"dropped {figures.count(drop.rows)}: {drop.reason}" for drop in quality.dropped]
    remarks += [f"not read: {source.source}: {source.reason}" for source in quality.broken]
    remarks += [
        f"silent although messages are overdue: {figures.group(row.dimension, row.name, row.delay)}"
        for row in report.reconciliation
        if row.dimension == "level" and row.is_silent
    ]
    lost = sum(row.lost for row in report.reconciliation if row.dimension == "total")
    return [*remarks, f"lost: {figures.count(lost)}"] if lost else remarks


def _cut(lines: Sequence[str]) -> list[str]:
    if len(lines) <= _MOST_LINES:
        return list(lines)
    return [*lines[: _MOST_LINES - 1], f"and {len(lines) - _MOST_LINES + 1} more, see the report"]


class _Levels:
    """A table of the used levels, the other schemes and the total, with the columns that fit the console."""

    def __init__(self, report: Report) -> None:
        rows = report.lateness
        self._rows = [row for row in rows if row.dimension == "level" and row.measured]
        self._rows += [row for row in rows if row.dimension == "scheme" and row.name != "levels"]
        self._rows += [row for row in rows if row.dimension == "total"]

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        names = {name for row in self._rows for name in row.percentiles}
        shown = sorted(names, key=lambda name: float(name[1:]))
        if options.max_width < _WIDE:
            shown = [name for name in shown if name in ("p50", "p99")]
        times = [f">{name}" for name in (*shown, "max")]
        yield _table(
            ["", ">measured", ">on time", ">early", ">overdue", *times],
            (
                [Text(figures.group(row.dimension, row.name, row.delay)), *_numbers(row, shown)]
                for row in self._rows
            ),
        )


def _numbers(row: Lateness, percentiles: Sequence[str]) -> Iterable[Text]:
    yield Text(figures.count(row.measured))
    yield Text(figures.share(row.on_time_share))
    for number in (row.early, row.overdue):
        yield Text(figures.count(number), style=_DANGER if number else "")
    for value in (*(row.percentiles.get(name) for name in percentiles), row.max_us):
        yield Text(figures.duration(value))


def _comparison(comparison: Comparison) -> Iterator[RenderableType]:
    names = [figures.harmless(side.name) for side in comparison.sides]
    yield Text(f"compared with {figures.listed(names[:-1])}", style="bold")
    for difference in comparison.differences:
        yield Text(figures.harmless(difference), style="yellow")
    changes = (change for change in comparison.changes if change.dimension == "total")
    yield _table(
        ["", *(f">{name}" for name in names), ">change", ">ratio"],
        (
            [
                Text(change.metric.replace("_", " ")),
                *(Text(figures.figure(change.metric, value)) for value in change.values),
                Text(figures.change(change.metric, change.deltas[-1])),
                Text(figures.ratio(change.ratios[-1])),
            ]
            for change in changes
        ),
    )


def _judgements(judgements: Sequence[Judgement]) -> Table:
    return _table(
        ["", "condition", "found"],
        (
            [
                Text("passed", style="green") if judgement.passed else Text("failed", style=_DANGER),
                Text(figures.harmless(judgement.text)),
                Text(figures.harmless(judgement.actual if judgement.passed else judgement.reason)),
            ]
            for judgement in judgements
        ),
    )


def _table(columns: Sequence[str], rows: Iterable[Iterable[Text]]) -> Table:
    """Make a table. A ``>`` before a column's name marks numbers."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for name in columns:
        is_number = name[:1] == ">"
        made.add_column(
            Text(name.removeprefix(">")), justify="right" if is_number else "left", overflow="fold"
        )
    for row in rows:
        made.add_row(*row)
    return made
