"""The figures that documents quote are those of ``docs/measurements.md``, rounded as they are quoted."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]


class Quote(NamedTuple):
    """A figure in a page and its row of the measurements: two patterns, whose one group is the figure."""

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
        "docs/lateness.md", rf"in {NUMBER} s\s+for 100,000", rf"\| 100,000 rows, SQLite \|.*?\| {NUMBER} \("
    ),
    Quote(RECIPE, rf"\| {NUMBER} s, and the container's", START.format(rf"[\d.]+ s \| {NUMBER} s")),
    Quote(RECIPE, rf"container's start \| {NUMBER} s", START.format(rf"{NUMBER} s \| [\d.]+ s")),
    Quote(RECIPE, rf"\| {NUMBER} MB; its own", MEMORY.format(rf"[\d.]+ MB \| {NUMBER} MB")),
    Quote(RECIPE, rf"12 GB \| {NUMBER} MB", MEMORY.format(rf"{NUMBER} MB \| [\d.]+ MB")),
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
def test_a_quoted_figure_was_measured(quote: Quote) -> None:
    quoted, measured = _figure(quote.page, quote.quoted), _figure("docs/measurements.md", quote.measured)
    decimals = len(quoted.partition(".")[2])
    assert f"{float(measured):.{decimals}f}" == quoted
