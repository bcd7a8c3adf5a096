"""Fixtures of tests of the remoting door."""

from collections.abc import AsyncIterator

import pytest

from tests.support.remoting import Remoting, running_remoting


@pytest.fixture
async def remoting() -> AsyncIterator[Remoting]:
    async with running_remoting() as remoting:
        yield remoting
