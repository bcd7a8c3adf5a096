"""Which Rust client is tested: that which Cargo.toml pins."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent


def versions() -> dict[str, str]:
    """Its version."""
    [version] = re.findall(
        r'^rocketmq-client-rust = \{ version = "=(\S+?)"', (FOLDER / "Cargo.toml").read_text(), re.M
    )
    return {"rust": version}
