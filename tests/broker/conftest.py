"""Fixtures of tests that run a broker in the test's process."""

from functools import partial
from pathlib import Path

import pytest

from mocketmq.clock import Clock
from mocketmq.store.database import MEMORY
from tests.support.second_directories import WALL_US


@pytest.fixture(params=["disk", "memory"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Storage of a broker, on disk or in memory. Tests must pass with either."""
    return tmp_path if request.param == "disk" else MEMORY


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the wall clock, so that times computed from it are known."""
    monkeypatch.setattr("mocketmq.broker.building.Clock", partial(Clock, wall=lambda: WALL_US))
