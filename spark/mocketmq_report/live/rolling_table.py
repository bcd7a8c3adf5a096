"""The table of ``mocketmq report --follow``: the latest window of each level, and totals."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pyspark.sql import Row
from rich import box
from rich.table import Table
from rich.text import Text

from mocketmq.clock import US_PER_S
from mocketmq.columns import fitting
from mocketmq.duration import format_duration
from mocketmq_report.figures import NONE, count, duration, instant, rate
from mocketmq_report.live.delivery_stream import STEPS
from mocketmq_report.live.status import NO_LEVEL, Backlog, BrokerStatus

_COLUMNS: Final = (
    *("level", "delay", "delivered", "rate", "p50", "p99", "max", "early", "pending", "overdue"),
    *("total", "total max", "total early"),
)
_LEAST: Final = ("delay", "rate", "total max", "p50", "total", "total early", "delivered", "max")
"""Columns to omit if the table is too wide, the least important first."""
_NOTHING: Final = Backlog(0, 0)


class LevelTotal(NamedTuple):
    """The deliveries of a level since counting began."""

    deliveries: int = 0
    early: int = 0
    max_us: int | None = None


class RollingTable:
    """Counts in windows of ``window_us`` since ``since_us``, by the broker's clock."""

    def __init__(self, window_us: int, since_us: int) -> None:
        self.window_us = window_us
        self.since_us = since_us
        self._windows: dict[tuple[int, int], Row] = {}
        self._sums: dict[int, LevelTotal] = {}

    @property
    def has_deliveries(self) -> bool:
        return bool(self._sums or self._windows)

    def update(self, rows: Sequence[Row]) -> None:
        """Add new or changed rows of ``delivery_stream.windows``."""
        for row in rows:
            before = self._windows.get((row.level, row.from_us))
            self._windows[row.level, row.from_us] = row
            if row.from_us % self.window_us == 0:  # add up only windows that do not overlap
                total = self._sums.get(row.level, LevelTotal())
                self._sums[row.level] = LevelTotal(
                    total.deliveries + row.deliveries - (before.deliveries if before else 0),
                    total.early + row.early - (before.early if before else 0),
                    row.max_us if total.max_us is None else max(row.max_us, total.max_us),
                )
        # The latest window begins with the latest delivery's step. Windows that end before it are final.
        over_us = max((from_us for _, from_us in self._windows), default=0) - self.window_us
        self._windows = {key: row for key, row in self._windows.items() if key[1] >= over_us}

    def render(self, now: BrokerStatus, width: int) -> Table:
        """Make the table for the instant of a status, with the columns that fit the width."""
        cells = [list(map(Text, _COLUMNS)), *self._rows(now)]
        widths = [max(text.cell_len for text in column) for column in zip(*cells, strict=True)]
        shown = fitting(widths, width, map(_COLUMNS.index, _LEAST))
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        table.title = Text(
            f"{format_duration(self.window_us)} up to {instant(now.now_us)},"
            f" total since {instant(self.since_us)};"
            f" run {now.run}, mocketmq {now.version}, profile {now.profile}, clock {now.clock}"
        )
        table.title_justify = "left"
        headings, *rows = ([row[column] for column in shown] for row in cells)
        for heading in headings:
            table.add_column(heading, justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        return table

    def _rows(self, now: BrokerStatus) -> Iterator[list[Text]]:
        """Make a row for each level, with all columns."""
        step_us = self.window_us // STEPS
        from_us = (now.now_us // step_us + 1) * step_us - self.window_us
        seconds = (now.now_us - max(from_us, min(now.first_us, now.now_us - step_us))) / US_PER_S
        nothing = 0 if self._sums else None  # None until something was counted
        for level in self._levels(now):
            row, total = self._windows.get((level, from_us)), self._sums.get(level, LevelTotal())
            waiting = now.waiting.get(level, _NOTHING)
            yield [
                Text("other" if level == NO_LEVEL else str(level)),
                Text("any" if level == NO_LEVEL else now.levels.describe(level)),
                Text(count(row.deliveries if row else nothing)),
                Text(rate(row.deliveries / seconds if row else None)),
                *(Text(duration(row[name] if row else None)) for name in ("p50_us", "p99_us", "max_us")),
                _alarm(row.early if row else 0),
                Text(count(waiting.pending)),
                _alarm(waiting.overdue),
                Text(count(total.deliveries if self._sums else None)),
                Text(duration(total.max_us)),
                _alarm(total.early),
            ]

    def _levels(self, now: BrokerStatus) -> list[int]:
        """Return the broker's levels and all other levels with counts; ``NO_LEVEL`` comes last."""
        known = {*range(1, now.levels.highest + 1), *now.waiting, *self._sums}
        return sorted(known, key=lambda level: (level == NO_LEVEL, level))


def _alarm(number: int) -> Text:
    """Format a count that should be 0; any other count is red."""
    return Text(count(number), style="bold red") if number else Text(NONE)
