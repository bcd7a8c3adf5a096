"""Tables of text: rows under headings, as wide as they need or as a terminal allows."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from mocketmq.cli.text import cell_width, fold, harmless
from mocketmq.columns import GAP, fitting, total_width

NOTHING = "–"
"""Stands for a value that there is not."""
_LONGEST_CELL = 500
_NARROWEST = 24
"""Width to which the cells of a column are folded before other columns are left out."""


class Table:
    """Rows under ``columns``, whose names begin with ``>`` where they hold numbers.

    On a terminal that is too narrow, the cells of the column ``folded`` take several lines. If that is not
    enough, columns are left out: first those without a value, then those of ``least``, in this order.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        least: Sequence[str] = (),
        folded: str | None = None,
    ) -> None:
        self._names = [name.removeprefix(">") for name in columns]
        self._is_number = [name[:1] == ">" for name in columns]
        self._rows = [[_cell(value) for value in row] for row in rows]
        self._least = [self._names.index(name) for name in least]
        self._folded = None if folded is None else self._names.index(folded)

    def lines(self, width: int | None) -> Iterator[str]:
        """The table on a terminal of ``width`` cells, or as wide as it is; then what is missing."""
        widths = [max(map(cell_width, column)) for column in zip(self._names, *self._rows, strict=True)]
        shown = list(range(len(widths)))
        if width is not None:
            wanted = widths[:]
            if self._folded is not None:
                widths[self._folded] = min(wanted[self._folded], _NARROWEST)
            shown = fitting(widths, width, [*self._without_value(), *self._least])
            if self._folded in shown:
                room = width - total_width(widths[each] for each in shown) + widths[self._folded]
                widths[self._folded] = min(wanted[self._folded], max(room, _NARROWEST))
        yield self._line(self._names, widths, shown)
        yield "─" * total_width(widths[each] for each in shown)
        for row in self._rows:
            cells = [[cell] for cell in row]
            if self._folded in shown:
                cells[self._folded] = list(fold(row[self._folded], widths[self._folded]))
            for line in zip_longest(*cells, fillvalue=""):
                yield self._line(line, widths, shown)
        if missing := [name for index, name in enumerate(self._names) if index not in shown]:
            yield f"not shown here: {', '.join(missing)}"

    def _without_value(self) -> Iterator[int]:
        """The columns of empty cells, the last one first."""
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
