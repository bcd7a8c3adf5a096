"""Writes the report of a lab as one HTML file, in the style of lateness reports."""

from collections.abc import Iterator
from functools import cache
from typing import Final

from jinja2 import Template

from mocketmq_report import figures
from mocketmq_report.lab.charts import lab_charts
from mocketmq_report.lab.document import LabReport
from mocketmq_report.report.page import embedded, environment

_UNITS: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def lab_html(lab: LabReport) -> str:
    """Make the page."""
    charts = list(lab_charts(lab))
    grown = [each for each in lab.subjects if each.growth]
    sections = [("lateness", "Lateness"), ("throughput", "Throughput")]
    page: str = _page().render(
        lab=lab,
        charts=charts,
        grown=grown,
        facts=list(facts(lab)),
        sections=[*sections, ("pending", "With many pending")] if grown else sections,
        inexact=inexact(lab),
        specs=embedded({chart.name: chart.spec for chart in charts}),
    )
    return page


def facts(lab: LabReport) -> Iterator[tuple[str, str]]:
    """Return the facts about the load and the machine."""
    load, machine = lab.load, lab.machine
    yield "load", f"{load.rate} messages a second for {load.seconds} s, bodies of {load.size} bytes"
    yield "delays", figures.listed(load.delays)
    yield "herd", f"{figures.count(load.herd)} due at one instant"
    yield "pending", figures.listed(map(figures.count, load.pending))
    yield "delay-sync", load.delay_sync
    yield "machine", f"{machine.cores} cores, {machine.system}, Python {machine.python}"
    yield "load average", figures.listed(f"{each:.1f}" for each in machine.load_average)
    yield "data in", machine.directory


def inexact(lab: LabReport) -> str:
    """Name the subjects whose lateness has an error, with the size of the error."""
    return figures.listed(
        f"{each.name} tells it to ±{figures.duration(each.lateness_error_us)}"
        for each in lab.subjects
        if each.lateness_error_us
    )


def size(number: float | None) -> str:
    """Format bytes with a unit: ``870 B``, ``12.3 MB``."""
    if number is None:
        return figures.NONE
    for unit, name in _UNITS:
        if abs(number) >= unit:
            return f"{number / unit:.1f} {name}"
    return f"{number:.0f} B"


def whole_bytes(number: float | None) -> str:
    """Format whole bytes: ``1,234 B``."""
    return figures.NONE if number is None else f"{number:,.0f} B"


@cache
def _page() -> Template:
    return environment(__package__, {"size": size, "bytes": whole_bytes}).get_template("lab.html.jinja")
