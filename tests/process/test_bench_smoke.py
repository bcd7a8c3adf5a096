"""The benchmarks still run. These tests do not judge their figures."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.process import clean_environment


async def measured(tmp_path: Path, name: str, **environment: str) -> tuple[bytes, list[dict[str, Any]]]:
    """Run a quick benchmark, and return its output and the figures that it saves."""
    saved = tmp_path / "figures.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench", name, "--quick", "--json", str(saved)),
        cwd=Path(__file__).parents[2],
        env=clean_environment() | environment,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(600):
        shown, _ = await process.communicate()
    assert process.returncode == 0
    return shown, json.loads(saved.read_text())["figures"][name]


@pytest.mark.slow
async def test_a_quick_benchmark_shows_and_saves_its_figures(tmp_path: Path) -> None:
    shown, figures = await measured(tmp_path, "moves")
    assert b"reset of 100 messages" in shown
    assert all(figure["median"] > 0 for figure in figures)


@pytest.mark.slow
async def test_benchmark_measures_the_causes_of_lateness(tmp_path: Path) -> None:
    _, figures = await measured(tmp_path, "stalls", BENCH_STORES="disk", BENCH_RATES="50")
    named = {figure["name"].removeprefix("disk, 50 a second: "): figure["median"] for figure in figures}
    assert named["p50 of lateness"] > 0
    assert named["how many: a transaction"] > 0
    assert named["how many: a read of the store"] > 0
    assert named["how many: syncs"] > 0
