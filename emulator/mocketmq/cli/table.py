"""Text tables, fitted to the terminal's width."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from mocketmq.cli.text import cell_width, fold, harmless, shortened
from mocketmq.columns import GAP, fitting, total_width

NOTHING = "–"
"""Text shown for a missing value."""
_LONGEST_CELL = 500
_FOLDED = 24
"""Minimum width of a folded column; below it, columns are left out instead."""
_SHORTEST = 8
"""Minimum width of shortened cells, unless the table still does not fit."""


class Table:
    """A table with ``columns``. The name of a right-aligned column of numbers begins with ``>``.

    A table is fitted to the terminal. If the terminal is too narrow, cells of the column ``folded`` take
    several lines. If that is not enough, columns are left out, first those without values, then those in
    ``least``, in order. Finally the longest cells are shortened, first in the columns ``cut``, and then in
    other columns, such as ids.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        least: Sequence[str] = (),
        cut: Sequence[str] = (),
        folded: str | None = None,
    ) -> None:
        self._names = [name.removeprefix(">") for name in columns]
        self._is_number = [name[:1] == ">" for name in columns]
        self._rows = [[_cell(value) for value in row] for row in rows]
        self._least = [self._names.index(name) for name in least]
        self._cut = {self._names.index(name) for name in cut}
        self._folded = None if folded is None else self._names.index(folded)

    def lines(self, width: int | None) -> Iterator[str]:
        """Yield the table's lines, fitted to ``width`` cells if given, and a note about omitted columns."""
        widths = [max(map(cell_width, column)) for column in zip(self._names, *self._rows, strict=True)]
        shown = list(range(len(widths)))
        if width is not None:
            widths, shown = self._fit(widths, width)
        yield self._line(
            [shortened(name, at) for name, at in zip(self._names, widths, strict=True)], widths, shown
        )
        yield "─" * total_width(widths[each] for each in shown)
        for row in self._rows:
            cells = [[shortened(cell, at)] for cell, at in zip(row, widths, strict=True)]
            if self._folded in shown:
                cells[self._folded] = list(fold(row[self._folded], widths[self._folded]))
            for line in zip_longest(*cells, fillvalue=""):
                yield self._line(line, widths, shown)
        if missing := [name for index, name in enumerate(self._names) if index not in shown]:
            note = f"not shown here: {', '.join(missing)}"
            yield from [note] if width is None else fold(note, width)

    def _fit(self, wanted: Sequence[int], width: int) -> tuple[list[int], list[int]]:
        """Return the widths of all columns on ``width`` cells, and the columns that are shown."""
        widths = list(wanted)
        if self._folded is not None:
            widths[self._folded] = min(wanted[self._folded], _FOLDED)
        shown = fitting(widths, width, [*self._without_value(), *self._least])
        text = [each for each in shown if not self._is_number[each]]
        names = [each for each in text if each in self._cut or each == self._folded]
        for columns, shortest in ((names, _SHORTEST), (text, 1)):
            over = total_width(widths[each] for each in shown) - width
            for _ in range(over):
                longest = max(columns, key=widths.__getitem__, default=None)
                if longest is None or widths[longest] <= shortest:
                    break
                widths[longest] -= 1
        if self._folded in shown:
            room = width - total_width(widths[each] for each in shown)
            widths[self._folded] = min(wanted[self._folded], widths[self._folded] + max(room, 0))
        return widths, shown

    def _without_value(self) -> Iterator[int]:
        """Yield the columns without values, beginning with the last column."""
        for index in reversed(range(len(self._names))):
            if all(row[index] in ("", NOTHING) for row in self._rows):
                yield index

    def _line(self, cells: Sequence[str], widths: Sequence[int], shown: Iterable[int]) -> str:
        padded = []
        for index in shown:
            blank = " " * (widths[index] - cell_width(cells[index]))
            padded.append(blank + cells[index] if self._is_number[index] else cells[index] + blank)
        return (" " * GAP).join(padded).rstrip()


def _cell(value: object) -> str:
    text = NOTHING if value is None else str(value)
    shown = harmless(text[:_LONGEST_CELL])
    return f"{shown}…" if len(text) > _LONGEST_CELL else shown
