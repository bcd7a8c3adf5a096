"""Fixtures of tests of the command line."""

from pathlib import Path

import pytest


@pytest.fixture
def delay(tmp_path: Path) -> Path:
    """A delay directory, not made yet."""
    return tmp_path / "data" / "delay"
