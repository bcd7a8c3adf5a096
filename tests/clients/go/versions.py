"""The tested Go client: the version in go.mod."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent


def versions() -> dict[str, str]:
    """Return the client's version."""
    [version] = re.findall(r"rocketmq-client-go/v2 v(\S+)", (FOLDER / "go.mod").read_text())
    return {"go": version}
