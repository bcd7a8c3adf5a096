"""Fixtures of tests that go in by the front door."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api import Api, running_api


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """A broker on disk with a manual clock."""
    async with running_api(data=str(tmp_path / "data")) as api:
        yield api
