"""Fixtures of tests of the command line."""

from pathlib import Path

import pytest


@pytest.fixture
def delay(tmp_path: Path) -> Path:
    """Path of a delay directory that does not exist yet."""
    return tmp_path / "data" / "delay"
