"""A figure: measured runs, the floor of the same runs, and the project's aim."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Aim:
    """Target for the median: at most or at least ``limit``, as a number or as a multiple of the floor.

    With ``in_every_run``, each run must also meet the aim against the floor's run of the same round.
    """

    limit: float
    is_most: bool
    is_of_floor: bool = False
    in_every_run: bool = False

    def is_met(self, value: float, floor: float | None) -> bool:
        """Whether a figure meets the aim."""
        if self.is_of_floor:
            if not floor:
                return False
            value /= floor
        return value <= self.limit if self.is_most else value >= self.limit

    def __str__(self) -> str:
        limit = f"{self.limit} × floor" if self.is_of_floor else _short(self.limit)
        return f"{'≤' if self.is_most else '≥'} {limit}{', each' * self.in_every_run}"


def at_most(limit: float, *, of_floor: bool = False, in_every_run: bool = False) -> Aim:
    """Aim at no more than this value, or than this share of the floor."""
    return Aim(limit, is_most=True, is_of_floor=of_floor, in_every_run=in_every_run)


def at_least(limit: float, *, of_floor: bool = False) -> Aim:
    """Aim at no less than this value, or than this share of the floor."""
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
        """The median run, by which the figure is judged."""
        return median(self.runs)

    @property
    def floor(self) -> float | None:
        """The median run of the floor, or None for a figure without floor."""
        return median(self.floors) if self.floors else None

    @property
    def ratio(self) -> float | None:
        """The median as a multiple of the floor."""
        return self.median / self.floor if self.floor else None

    @property
    def is_met(self) -> bool | None:
        """Whether the figure meets its aim, or None without an aim."""
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
        """Return the figure as JSON, for scripts that compare runs."""
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
    """Return the smallest value that at least this share of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * share), 1) - 1]


def table_of(title: str, figures: Iterable[Figure]) -> Table:
    """Return a text table of the figures of one benchmark."""
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
