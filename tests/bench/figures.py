"""A figure: what was measured, run by run, beside a floor of the same run, and what the project aims for."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Aim:
    """Where the median should be: at most or at least at ``limit``, or at so many times the floor.

    ``in_every_run``: not only the median, but each run beside the floor's of the same round.
    """

    limit: float
    is_most: bool
    is_of_floor: bool = False
    in_every_run: bool = False

    def is_met(self, value: float, floor: float | None) -> bool:
        """Whether the median of a figure is where it should be."""
        if self.is_of_floor:
            if not floor:
                return False
            value /= floor
        return value <= self.limit if self.is_most else value >= self.limit

    def __str__(self) -> str:
        limit = f"{self.limit} × floor" if self.is_of_floor else _short(self.limit)
        return f"{'≤' if self.is_most else '≥'} {limit}{', each' * self.in_every_run}"


def at_most(limit: float, *, of_floor: bool = False, in_every_run: bool = False) -> Aim:
    """No more than this, or than this share of the floor."""
    return Aim(limit, is_most=True, is_of_floor=of_floor, in_every_run=in_every_run)


def at_least(limit: float, *, of_floor: bool = False) -> Aim:
    """No less than this, or than this share of the floor."""
    return Aim(limit, is_most=False, is_of_floor=of_floor)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a benchmark; ``runs`` and ``floors`` are in the same unit."""

    name: str
    unit: str
    runs: Sequence[float]
    floors: Sequence[float] = ()
    aim: Aim | None = None

    @property
    def median(self) -> float:
        """The run in the middle: what the figure is judged by."""
        return median(self.runs)

    @property
    def floor(self) -> float | None:
        """The floor's run in the middle; None for a figure without floor."""
        return median(self.floors) if self.floors else None

    @property
    def ratio(self) -> float | None:
        """How many times the floor it is."""
        return self.median / self.floor if self.floor else None

    @property
    def is_met(self) -> bool | None:
        """Whether it is where the project wants it; None if nothing is wanted."""
        aim = self.aim
        if aim is None:
            return None
        if not aim.in_every_run:
            return aim.is_met(self.median, self.floor)
        floors: Sequence[float | None] = self.floors or [None] * len(self.runs)
        return all(aim.is_met(*round_) for round_ in zip(self.runs, floors, strict=True))

    def __str__(self) -> str:
        floor = "" if self.floor is None else f" (floor: {_short(self.floor)})"
        return f"{self.name}: {_short(self.median)} {self.unit}{floor}"

    def as_json(self) -> dict[str, Any]:
        """Everything about it, for scripts that compare runs."""
        return {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "runs": list(self.runs),
            "floor": self.floor,
            "floors": list(self.floors),
            "ratio": self.ratio,
            "aim": None if self.aim is None else str(self.aim),
            "met": self.is_met,
        }


def quantile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least this share of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * share), 1) - 1]


def table_of(title: str, figures: Iterable[Figure]) -> Table:
    """The figures of one benchmark, for people."""
    table = Table(title=title, title_justify="left")
    table.add_column("figure", overflow="fold")
    for heading in ("median", "min – max", "runs", "floor", "ratio", "aim"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    words = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}
    for figure in figures:
        table.add_row(
            figure.name,
            f"{_short(figure.median)} {figure.unit}",
            f"{_short(min(figure.runs))} – {_short(max(figure.runs))}",
            str(len(figure.runs)),
            "" if figure.floor is None else _short(figure.floor),
            "" if figure.ratio is None else _short(figure.ratio),
            "" if figure.aim is None else str(figure.aim),
            words[figure.is_met],
        )
    return table


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
