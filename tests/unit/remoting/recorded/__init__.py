"""Frames that unmodified clients sent, see README.md."""

import ast
from pathlib import Path

FILES = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.txt"))}
"""By client."""


def frames(client: str) -> list[bytes]:
    """What the client sent."""
    return [ast.literal_eval(line) for line in FILES[client].read_text("utf-8").splitlines()]
