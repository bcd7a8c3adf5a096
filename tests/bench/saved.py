"""Saves the figures that documents quote: ``docs/figures.json``, a group for each benchmark."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.bench.figures import Figure

FIGURES: Final = Path(__file__).parents[2] / "docs" / "figures.json"


def save(results: Mapping[str, Sequence[Figure]], path: Path = FIGURES) -> None:
    """Replace the groups of these benchmarks only."""
    groups: dict[str, Any] = json.loads(path.read_text())
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    for name, figures in results.items():
        groups[name] = {
            "by": f"make bench ARGS={name}",
            "measured": f"{datetime.now(UTC):%Y-%m-%d}",
            "on": machine,
            "figures": [_saved(figure) for figure in figures],
        }
    path.write_text(as_text(groups))


def _saved(figure: Figure) -> dict[str, Any]:
    saved = {
        "name": figure.name,
        "unit": figure.unit,
        "median": figure.median,
        "min": min(figure.runs),
        "max": max(figure.runs),
        "floor": figure.floor,
        "ratio": figure.ratio,
    }
    return {key: _rounded(value) for key, value in saved.items() if value is not None}


def _rounded(value: Any) -> Any:
    """Round to four digits; more are noise."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


def as_text(groups: Mapping[str, Any]) -> str:
    """JSON with a line for each figure, for readable diffs."""
    parts = []
    for name, group in groups.items():
        about = {key: value for key, value in group.items() if key != "figures"}
        lines = ",\n".join(f"  {json.dumps(figure, ensure_ascii=False)}" for figure in group["figures"])
        head = json.dumps(about, ensure_ascii=False)[:-1]
        parts.append(f'{json.dumps(name)}: {head}, "figures": [\n{lines}\n]}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"
