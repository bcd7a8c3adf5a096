"""The code blocks of the pages that a new user follows, starting at the README."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/python.md", "docs/clients.md", "docs/settings.md", "docs/install.md")
"""Pages in reading order. Each page relies on the broker that the README starts."""

_BLOCK = re.compile(r"^(?:<!-- test: (\S+) -->\n)?```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A code block. ``kind`` is the mark before it, which selects how to try it; empty without a mark."""

    kind: str
    language: str
    text: str


BLOCKS = [Block(*found) for page in PAGES for found in _BLOCK.findall((ROOT / page).read_text())]


def examples(kind: str) -> list[str]:
    """Return the texts of the blocks of this kind."""
    found = [block.text for block in BLOCKS if block.kind == kind]
    assert found, f"no page has an example of kind {kind}"
    return found
