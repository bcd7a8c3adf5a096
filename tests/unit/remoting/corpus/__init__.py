"""Seeds of the fuzzers: on each line of a file a bytes literal of Python, good or bad."""

import ast
from pathlib import Path


def seeds(kind: str) -> list[bytes]:
    """The seeds in ``<kind>.txt``."""
    lines = (Path(__file__).parent / f"{kind}.txt").read_text("utf-8").splitlines()
    return [ast.literal_eval(line) for line in lines if not line.startswith("#")]
