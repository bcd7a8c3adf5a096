"""Frames that unmodified clients sent; see README.md."""

import ast
from pathlib import Path

FILES = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.txt"))}
"""Files of frames, by client."""

SIGNED_FILES = {path.stem: path for path in sorted((Path(__file__).parent / "signed").glob("*.txt"))}
"""Files of signed frames, by client; not every client signs."""


def frames(client: str) -> list[bytes]:
    """Return the frames that the client sent."""
    return _read(FILES[client])


def signed_frames(client: str) -> list[bytes]:
    """Return the frames that the client signed with a key of ``tests.clients.access``."""
    return _read(SIGNED_FILES[client])


def _read(path: Path) -> list[bytes]:
    return [ast.literal_eval(line) for line in path.read_text("utf-8").splitlines()]
