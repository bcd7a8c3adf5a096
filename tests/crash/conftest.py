"""Fixtures of the crash tests."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from mocketmq_compat.delay.marks import Tidying
from tests.crash.disks import DISKS, Disk


@pytest.fixture(params=DISKS, ids=lambda disk: disk.__name__)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """Each kind of disk; a test can fill it."""
    with request.param(tmp_path) as made:
        yield made


@pytest.fixture
def first_turn(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once a broker has looked for foreign files, which it does at its start and then only much later."""
    turned = asyncio.Event()
    turn = Tidying.turn

    async def tell(files: Tidying) -> None:
        await turn(files)
        turned.set()

    monkeypatch.setattr(Tidying, "turn", tell)
    return turned
