"""The figures that documents quote are in ``docs/figures.json``, which ``make bench ARGS=--save`` writes.

Above a table, a paragraph or a list that quotes figures, ``<!-- figures: NAME … -->`` names their benchmarks.
"""

import json
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.bench.benches import BENCHES
from tests.bench.saved import FIGURES

ROOT = Path(__file__).parents[2]
PAGES = [
    str(path.relative_to(ROOT)) for path in (*ROOT.glob("README*.md"), *sorted((ROOT / "docs").rglob("*.md")))
]

MARKER = re.compile(r"<!-- figures: ([\w -]+) -->\n")
FIGURE = r"(?<![\w.,-])(\d[\d,]*(?:\.\d+)?)"
IN_CELL = re.compile(rf"{FIGURE}(?![\w.]*\d)")
IN_TEXT = re.compile(rf"{FIGURE}(?: CPU)? ?(?:ms|s|µs|us|[MGKk]?B|%|seconds|a second)(?!\w)")
FRACTION = re.compile(r"(?<![\w.,-])\d+\.\d+ ?(?:ms|s|µs|us|MB|GB)(?!\w)")
"""Matches fractions with a unit, because texts rarely give a fraction unless it is measured."""
CHOSEN = {"0.1 s", "0.3 s", "1.2 s", "2.75 ms"}
"""Numbers that are not measured: a scheme's slots, a long poll's margin, dongwo's scan, an example."""
NOT_MEASURED = {"aim", "what it is"}
"""Headings of columns other than the first."""


def figures_in(block: str) -> Iterator[str]:
    """Yield the measured figures that a table or a text quotes; in a text, numbers with a unit.

    A cell that links to another project's page quotes that page.
    """
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
    if not block.startswith("|"):
        yield from IN_TEXT.findall(" ".join(block.split()))  # a unit may be on the next line
        return
    measured = [number for number, heading in enumerate(rows[0]) if number and heading not in NOT_MEASURED]
    for row in rows[2:]:
        cells = (row[number] for number in measured)
        yield from chain.from_iterable(IN_CELL.findall(cell) for cell in cells if "](http" not in cell)


def blocks(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield each paragraph, list or table with the benchmarks named above it."""
    prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
    for block in (each.strip("\n") for each in prose.split("\n\n")):
        marker = MARKER.match(block)
        yield (marker[1].split(), block[marker.end() :]) if marker else ([], block)


def numbers_of(figure: Any) -> Iterator[float]:
    """Return all numbers of a figure: its median, its range, its floor."""
    if isinstance(figure, int | float):
        yield figure
    elif isinstance(figure, dict | list):
        for value in figure.values() if isinstance(figure, dict) else figure:
            yield from numbers_of(value)


def is_among(quoted: str, measured: set[float]) -> bool:
    """Whether the quoted number is one of these numbers, rounded as quoted."""
    plain = quoted.replace(",", "")
    decimals = len(plain.partition(".")[2])
    return any(f"{value:.{decimals}f}" == plain for value in measured)


def faults_in(page: str, text: str, measured: dict[str, Any]) -> Iterator[str]:
    """Return figures without a marker, and figures that their benchmarks have not measured."""
    for names, block in blocks(text):
        if unknown := set(names) - measured.keys():
            yield f"{page}: {FIGURES.name} has no benchmark {sorted(unknown)}"
        elif names:
            found = set(numbers_of([measured[name]["figures"] for name in names]))
            yield from (
                f"{page}: {quoted} is not among the figures of {names}: {block[:60]}"
                for quoted in figures_in(block)
                if not is_among(quoted, found)
            )
        else:
            if page == "docs/measurements.md" and block.startswith("|"):
                yield f"{page}: a table without its benchmarks: {block[:60]}"
            yield from (
                f"{page}: {quoted} without its benchmark: {block[:60]}"
                for quoted in FRACTION.findall(re.sub(r"`[^`\n]*`", "", block))
                if quoted not in CHOSEN
            )


@pytest.fixture(scope="module")
def measured() -> Any:
    return json.loads(FIGURES.read_text())


@pytest.mark.parametrize("page", PAGES)
def test_pages_quote_measured_figures(page: str, measured: dict[str, Any]) -> None:
    assert [*faults_in(page, (ROOT / page).read_text(), measured)] == []


def test_every_benchmark_of_the_file_exists_and_is_quoted(measured: dict[str, Any]) -> None:
    texts = [(ROOT / page).read_text() for page in PAGES]
    quoted = {name for text in texts for marker in MARKER.findall(text) for name in marker.split()}
    assert measured.keys() == quoted
    by_bench = {name for name, group in measured.items() if group["by"].startswith("make bench")}
    assert by_bench <= BENCHES.keys()


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("<!-- figures: start -->\nready in 0.3 s, with 64 connections", 0),
        ("<!-- figures: start -->\nready in 0.4 s", 1),
        ("<!-- figures: end -->\nready in 0.3 s", 1),
        ("ready in 0.31 s\n\nwaits 0.3 s", 1),
        ("```\nready in 0.31 s\n```\n", 0),
        ("<!-- figures: start -->\n| a | ready | aim |\n|---|---|---|\n| 7 | 0.31 s (p99 0.29) | 4 s |", 0),
        ("<!-- figures: start -->\n| a | ready | aim |\n|---|---|---|\n| 7 | 0.31 s, 4.9.7, 8 | 4 s |", 1),
        ("<!-- figures: start -->\n| a | ready |\n|---|---|\n| 7 | 8 s [by](https://a.b) |\n| 7 | 9 s |", 1),
    ],
)
def test_an_unmeasured_figure_is_detected(text: str, faults: int) -> None:
    measured = {"start": {"figures": [{"name": "ready", "unit": "s", "median": 0.31, "min": 0.29}]}}
    assert len([*faults_in("docs/page.md", text, measured)]) == faults


class Quote(NamedTuple):
    """A figure in a page and its row of measurements, as two patterns with the figure as only group."""

    page: str
    quoted: str
    measured: str


START = r"\| new directory: until .*? \| {} \|"
MEMORY = r"\| idle memory, all processes \| {} \|"
LATENESS = r"\| lateness over the wire at 200 a second, .*? \| {}"
RECIPE = "docs/recipes/instead-of-rocketmq.md"
NUMBER = r"([\d.,]+)"
QUOTES = [
    Quote("README.md", rf"ready after about {NUMBER} s", rf"\| ready, new directory .*? \| {NUMBER} /"),
    Quote("README.md", rf"takes {NUMBER} MB of memory", rf"\| idle memory, new directory .*? \| {NUMBER} /"),
    Quote(
        "docs/lateness.md",
        rf"\| 100,000 deliveries \| [\d.]+ s \| {NUMBER} s",
        rf"\| 100,000 rows, SQLite \|.*?\| {NUMBER} \(",
    ),
    Quote(RECIPE, rf"\| {NUMBER} s, and the container's", START.format(rf"[\d.]+ s \| {NUMBER} s")),
    Quote(RECIPE, rf"container's start \| {NUMBER} s", START.format(rf"{NUMBER} s \| [\d.]+ s")),
    Quote(RECIPE, rf"\| {NUMBER} MB; its own", MEMORY.format(rf"[\d.]+ MB \| {NUMBER} MB")),
    Quote(RECIPE, rf"twelve GB \| {NUMBER} MB", MEMORY.format(rf"{NUMBER} MB \| [\d.]+ MB")),
    Quote(RECIPE, rf"p50 / p99 \| {NUMBER} / ", LATENESS.format(rf".*? ms \| {NUMBER} / ")),
    Quote(RECIPE, rf"p50 / p99 \| \S+ / {NUMBER} ms", LATENESS.format(rf".*? ms \| \S+ / {NUMBER} / ")),
    Quote(RECIPE, rf"100 ms \| {NUMBER} / ", LATENESS.format(rf"{NUMBER} / ")),
    Quote(RECIPE, rf"100 ms \| \S+ / {NUMBER} ms", LATENESS.format(rf"\S+ / {NUMBER} ")),
    Quote(RECIPE, rf"synced to disk \| {NUMBER} \|", rf"64 in flight over 8 connections \|.*?\| {NUMBER} \|"),
    Quote(RECIPE, rf"synced to disk \| \S+ \| {NUMBER} \|", rf"64 in flight over 8 connections \| {NUMBER} "),
]


def _figure(page: str, pattern: str) -> str:
    text = (ROOT / page).read_text()
    found = re.search(pattern, text)
    assert found, f"{page} has no {pattern}"
    return found[1].replace(",", "")


@pytest.mark.parametrize("quote", QUOTES, ids=lambda quote: f"{quote.page}: {quote.quoted}")
def test_a_figure_is_the_same_on_two_pages(quote: Quote) -> None:
    quoted, measured = _figure(quote.page, quote.quoted), _figure("docs/measurements.md", quote.measured)
    decimals = len(quoted.partition(".")[2])
    assert f"{float(measured):.{decimals}f}" == quoted
