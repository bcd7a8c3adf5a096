"""The tested SDKs of RocketMQ 5: the versions pinned by each language's files."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parent
JAVA: Mapping[str, str] = {"java-5.0-grpc": "5.0.0", "java-5.2-grpc": "5.2.0"}
"""The oldest client and the newest; pom.xml takes the version from the command."""
OLDEST_PYTHON = "5.0.1"
"""The oldest client, tested for closing only; the newest is tested with all features."""


def versions() -> dict[str, str]:
    """Return the version of each client."""
    node = json.loads((FOLDER / "node" / "package.json").read_text())["dependencies"][
        "rocketmq-client-nodejs"
    ]
    return dict(JAVA) | {
        "python-grpc": _pinned("python/requirements.txt", r"rocketmq-python-client==(\S+)"),
        "node-grpc": node,
        "go-grpc": _pinned("go/go.mod", r"rocketmq-clients/golang/v5 v(\S+)"),
        "rust-grpc": _pinned("rust/Cargo.lock", r'name = "rocketmq"\nversion = "(\S+)"'),
    }


def _pinned(file: str, pattern: str) -> str:
    [version] = re.findall(pattern, (FOLDER / file).read_text())
    return str(version)
