"""Parse the page of a report as a browser does."""

from collections import Counter
from functools import cache
from html.parser import HTMLParser
from typing import Any

from msgspec.structs import replace

from mocketmq_report import document as d
from mocketmq_report.report.html import html
from tests.support.reports import sample_comparison, sample_limits, sample_report

VOID = {"meta", "link", "br", "img", "input"}


class Page(HTMLParser):
    """The elements, tables and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: dict[str, list[list[str]]] = {}  # rows of all tables by section, even folded tables
        self.texts: Counter[str] = Counter()
        self.words: dict[str, str] = {"": ""}  # text by section
        self.scripts: list[str] = []
        self._open: list[str] = []
        self._section = ""
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.elements.append((tag, values))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "section":
            self._section = values["id"] or ""
            self.words[self._section] = ""
            self.rows[self._section] = []
        elif tag == "tr":
            self.rows[self._section].append([])
        elif tag in ("td", "th"):
            self.rows[self._section][-1].append("")
        elif tag == "script":
            self.scripts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag == "section":
            self._section = ""

    def handle_data(self, data: str) -> None:
        if "script" in self._open:
            self.scripts[-1] += data
            return
        if "style" in self._open:
            return
        self.words[self._section] += data
        if self._open[-1:] and {"td", "th"} & set(self._open):
            self.rows[self._section][-1][-1] += data

    def row(self, section: str, first: str) -> list[str]:
        """Return the first row of a section with this first cell."""
        return next(row for row in self.rows[section] if row[0] == first)


@cache
def full() -> str:
    return html(sample_report(comparison=sample_comparison()), sample_limits())


@cache
def read() -> Page:
    return Page(full())


def page(**changes: Any) -> Page:
    """Return the page of a report without charts, which is faster to make."""
    report = sample_report()
    quiet = d.Timeline(
        step_us=1_000_000, instants=[], cells=[], markers=[], markers_left_out=changes.pop("left_out", 0)
    )
    bare: dict[str, Any] = {"timeline": quiet, "herds": [], "stages": [], "spectra": []}
    return Page(html(replace(report, **bare | changes)))
