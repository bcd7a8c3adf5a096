"""Selects the columns of a table that fit a width."""

from collections.abc import Iterable, Sequence

GAP = 3
"""Number of blank cells between two columns."""


def fitting(widths: Sequence[int], width: int, least: Iterable[int]) -> list[int]:
    """Return the columns to show on ``width`` cells.

    Columns in ``least`` are left out, one after the other, until the rest fits. All other columns are kept,
    even if they do not fit.
    """
    shown = list(range(len(widths)))
    for column in least:
        if total_width(widths[each] for each in shown) <= width:
            break
        if column in shown:
            shown.remove(column)
    return shown


def total_width(widths: Iterable[int]) -> int:
    """Return the width of columns side by side."""
    return sum(each + GAP for each in widths) - GAP
