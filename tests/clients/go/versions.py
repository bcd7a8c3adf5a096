"""Which Go client is tested: that which go.mod requires."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent


def versions() -> dict[str, str]:
    """Its version."""
    [version] = re.findall(r"rocketmq-client-go/v2 v(\S+)", (FOLDER / "go.mod").read_text())
    return {"go": version}
