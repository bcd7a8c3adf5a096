"""Frames that unmodified clients sent, see README.md."""

import ast
from pathlib import Path

FILES = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.txt"))}
"""By client."""

SIGNED_FILES = {path.stem: path for path in sorted((Path(__file__).parent / "signed").glob("*.txt"))}
"""By client; not every client signs."""


def frames(client: str) -> list[bytes]:
    """What the client sent."""
    return _read(FILES[client])


def signed_frames(client: str) -> list[bytes]:
    """What it sent with a key of ``tests.clients.access``."""
    return _read(SIGNED_FILES[client])


def _read(path: Path) -> list[bytes]:
    return [ast.literal_eval(line) for line in path.read_text("utf-8").splitlines()]
