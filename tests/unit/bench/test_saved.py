"""The file of figures: what ``make bench ARGS=--save`` changes in it."""

import json
from pathlib import Path

from tests.bench.figures import Figure
from tests.bench.saved import FIGURES, as_text, save


def test_benchmark_replaces_only_its_own_figures(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    other = {"by": "by hand", "figures": [{"name": "sends", "values": [5]}]}
    path.write_text(as_text({"start": {"by": "", "figures": []}, "other": other}))
    save({"start": [Figure("ready", "s", [0.31234567, 0.2, 0.4], [0.1])]}, path)
    saved = json.loads(path.read_text())
    assert saved["other"] == other
    assert saved["start"]["by"] == "make bench ARGS=start"
    assert saved["start"]["figures"] == [
        {"name": "ready", "unit": "s", "median": 0.3123, "min": 0.2, "max": 0.4, "floor": 0.1, "ratio": 3.123}
    ]


def test_figures_file_is_canonical() -> None:
    text = FIGURES.read_text()
    assert as_text(json.loads(text)) == text
