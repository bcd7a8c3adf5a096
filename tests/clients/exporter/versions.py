"""The tested version of rocketmq-exporter: its newest tag."""

import os
from pathlib import Path

from tests.clients.from_source import Source

SOURCE = Source(
    "rocketmq-exporter",
    os.environ.get("ROCKETMQ_EXPORTER", "https://github.com/apache/rocketmq-exporter.git"),
    "rocketmq-exporter-0.0.2",
    "696f346f5a18396fe8074611981e77338a16af41",
    Path(__file__).parent,
)


def versions() -> dict[str, str]:
    """Return the exporter's version."""
    return {"exporter": SOURCE.tag.removeprefix("rocketmq-exporter-")}
