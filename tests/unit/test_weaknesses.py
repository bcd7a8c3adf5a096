"""Each weakness that a page lists for a delay scheme or the relay has a test that the page names."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mocketmq_compat.delay.schemes import DEFAULT, SCHEMES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*(DOCS / "schemes" / f"{scheme}.md" for scheme in SCHEMES if scheme != DEFAULT), DOCS / "relay.md"]
PLACE = re.compile(r"\| test in `([^`]+)` \|$")
CELL = re.compile(r"\| `(test_\w+)(\u2026?)` \|$")
TEST = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


def names_in(place: Path) -> list[str]:
    files = [place] if place.is_file() else sorted(place.glob("test_*.py"))
    return [name for file in files for name in TEST.findall(file.read_text())]


def weaknesses(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each row of the page's table, with the tests that its last cell names."""
    lines = iter(page.read_text().splitlines())
    place = next(match[1] for line in lines if (match := PLACE.search(line)))
    tests = names_in(ROOT / place)
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            return
        cell = CELL.search(line)
        assert cell, line
        yield line, [name for name in tests if name == cell[1] or (cell[2] and name.startswith(cell[1]))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_one_test_for_each_weakness(page: Path) -> None:
    rows = [*weaknesses(page)]
    assert len(rows) > 5
    assert [row for row, tests in rows if len(tests) != 1] == []


def test_each_weakness_of_the_broker_patch_has_one_test() -> None:
    ids = re.findall(r"^\| (W\d+) \|", (DOCS / "protocol" / "aliyun.md").read_text(), re.MULTILINE)
    tests = names_in(ROOT / "tests" / "broker")
    assert len(ids) > 5
    assert [one for one in ids if sum(name.startswith(f"test_{one.lower()}_") for name in tests) != 1] == []
