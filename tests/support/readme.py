"""The README, as blocks of code in their order."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()

_BLOCK = re.compile(r"^(?:<!-- test: (\S+) -->\n)?```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A block; ``kind`` is the mark in front of it, and says how it is tried. Empty if there is none."""

    kind: str
    language: str
    text: str


BLOCKS = [Block(*found) for found in _BLOCK.findall(README)]


def examples(kind: str) -> list[str]:
    """The texts of a kind."""
    found = [block.text for block in BLOCKS if block.kind == kind]
    assert found, f"the README has no example of kind {kind}"
    return found
