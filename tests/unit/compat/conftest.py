"""Fixtures for tests of delay files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mocketmq_compat.delay.directories.delay_directory import DelayDirectory


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[DelayDirectory]:
    directory = DelayDirectory(tmp_path / "data" / "delay")
    yield directory
    directory.close()
