"""The measurements still run. What they measure is nobody's business here."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.support.process import clean_environment


@pytest.mark.slow
async def test_a_quick_benchmark_shows_and_saves_its_figures(tmp_path: Path) -> None:
    saved = tmp_path / "figures.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench", "moves", "--quick", "--json", str(saved)),
        cwd=Path(__file__).parents[2],
        env=clean_environment(),
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(600):
        shown, _ = await process.communicate()
    assert process.returncode == 0
    assert b"reset of 100 messages" in shown
    figures = json.loads(saved.read_text())["figures"]["moves"]
    assert all(figure["median"] > 0 for figure in figures)
