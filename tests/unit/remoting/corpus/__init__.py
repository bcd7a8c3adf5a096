"""Seeds of the fuzzers: each line of a file is a Python bytes literal, valid or invalid input."""

import ast
from pathlib import Path


def seeds(kind: str) -> list[bytes]:
    """Return the seeds in ``<kind>.txt``."""
    lines = (Path(__file__).parent / f"{kind}.txt").read_text("utf-8").splitlines()
    return [ast.literal_eval(line) for line in lines if not line.startswith("#")]
