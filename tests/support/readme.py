"""The README, and its examples."""

import re
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text()
_EXAMPLE = re.compile(r"<!-- test: (\w+) -->\n```\w+\n(.*?)```", re.DOTALL)


def examples(kind: str) -> list[str]:
    found = [text for name, text in _EXAMPLE.findall(README) if name == kind]
    assert found, f"the README has no example of kind {kind}"
    return found
