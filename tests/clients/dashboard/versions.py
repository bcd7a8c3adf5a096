"""The tested version of the RocketMQ Dashboard."""

import os
from pathlib import Path

from tests.clients.from_source import Source

SOURCE = Source(
    "the Dashboard",
    os.environ.get("ROCKETMQ_DASHBOARD", "https://github.com/apache/rocketmq-dashboard.git"),
    "rocketmq-dashboard-2.1.0",
    "a013c8fad163122713b0bd2db3d73b3bf0db373e",
    Path(__file__).parent,
)
"""Builds only the back end, because the pages need npm and the calls do not."""


def versions() -> dict[str, str]:
    """Return the Dashboard's version."""
    return {"dashboard": SOURCE.tag.removeprefix("rocketmq-dashboard-")}
