"""The pages that a new user follows from the README on, as blocks of code in their order."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/python.md", "docs/clients.md", "docs/settings.md", "docs/install.md")
"""In the order in which they are followed: each page relies on the broker that the README starts."""

_BLOCK = re.compile(r"^(?:<!-- test: (\S+) -->\n)?```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A block; ``kind`` is the mark in front of it, and says how it is tried. Empty if there is none."""

    kind: str
    language: str
    text: str


BLOCKS = [Block(*found) for page in PAGES for found in _BLOCK.findall((ROOT / page).read_text())]


def examples(kind: str) -> list[str]:
    """The texts of a kind."""
    found = [block.text for block in BLOCKS if block.kind == kind]
    assert found, f"no page has an example of kind {kind}"
    return found
