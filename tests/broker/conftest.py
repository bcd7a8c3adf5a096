"""Fixtures of tests with a broker in their own process."""

from functools import partial
from pathlib import Path

import pytest

from mocketmq.clock import Clock
from mocketmq.store.database import MEMORY
from tests.support.second_directories import WALL_US


@pytest.fixture(params=["disk", "memory"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where a broker keeps its messages; it must make no difference."""
    return tmp_path if request.param == "disk" else MEMORY


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the wall clock stand, so that what a client computes from it is known."""
    monkeypatch.setattr("mocketmq.broker.building.Clock", partial(Clock, wall=lambda: WALL_US))
