"""The tested Rust client: the version in Cargo.toml."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent


def versions() -> dict[str, str]:
    """Return the client's version."""
    [version] = re.findall(
        r'^rocketmq-client-rust = \{ version = "=(\S+?)"', (FOLDER / "Cargo.toml").read_text(), re.M
    )
    return {"rust": version}
