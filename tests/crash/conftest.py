"""Fixtures of the crash tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.disks import DISKS, Disk


@pytest.fixture(params=DISKS, ids=lambda disk: disk.__name__)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """A disk that can be filled, of each kind."""
    with request.param(tmp_path) as made:
        yield made
