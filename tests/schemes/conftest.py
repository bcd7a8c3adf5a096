"""Every test here runs over each delay scheme of the registry."""

import pytest

from mocketmq.settings import TimedSchemeName
from mocketmq_compat.delay.schemes import SCHEMES


@pytest.fixture(params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> TimedSchemeName:
    """The setting ``timed_scheme``."""
    name: TimedSchemeName = request.param
    return name
