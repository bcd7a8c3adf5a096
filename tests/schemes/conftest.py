"""Runs every test in this folder with each delay scheme of the registry."""

import pytest

from mocketmq.settings import TimedSchemeName
from mocketmq_compat.delay.schemes import SCHEMES
from tests.broker.conftest import wall

__all__ = ["wall"]


@pytest.fixture(params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> TimedSchemeName:
    """Value of the setting ``timed_scheme``."""
    name: TimedSchemeName = request.param
    return name
