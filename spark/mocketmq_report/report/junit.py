"""Writes a report as JUnit XML: a test case for the data, for each threshold, and for each fail-if rule.

An unreadable source is a skipped test case, because it does not fail the report, but should be visible.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Final

from mocketmq_report import figures
from mocketmq_report.document import Judgement, Report

_NOT_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow, not even escaped."""


def junit(report: Report) -> str:
    """Make the document, for UTF-8. Characters that XML does not allow are escaped."""
    header, quality = report.header, report.quality
    rules = report.comparison.judgements if report.comparison else []
    failures = sum(not judgement.passed for judgement in [*report.judgements, *rules])
    counts = {
        "tests": str(1 + len(quality.broken) + len(report.judgements) + len(rules)),
        "failures": str(failures),
        "errors": "0",
        "skipped": str(len(quality.broken)),
        "time": "0",
    }
    root = ET.Element("testsuites", counts)
    at = figures.instant(header.created_wall_us).removesuffix("Z")
    suite = ET.SubElement(root, "testsuite", {"name": _clean(header.title), "timestamp": at, **counts})
    data = _case(suite, "data", "read")
    ET.SubElement(
        data, "system-out"
    ).text = f"{figures.count(quality.kept)} of {figures.count(quality.read)} rows could be used"
    for source in quality.broken:
        ET.SubElement(_case(suite, "data", source.source), "skipped", {"message": _clean(source.reason)})
    _judged(suite, "thresholds", report.judgements)
    _judged(suite, "rules", rules)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, "unicode")}\n'


def _judged(suite: ET.Element, kind: str, judgements: Sequence[Judgement]) -> None:
    for judgement in judgements:
        case = _case(suite, kind, judgement.text)
        said = _clean(f"{judgement.actual}: {judgement.reason}")
        if judgement.passed:
            ET.SubElement(case, "system-out").text = said
        else:
            ET.SubElement(case, "failure", {"type": kind, "message": _clean(judgement.actual)}).text = said


def _case(suite: ET.Element, kind: str, name: str) -> ET.Element:
    return ET.SubElement(
        suite, "testcase", {"classname": f"lateness.{kind}", "name": _clean(name), "time": "0"}
    )


def _clean(text: str) -> str:
    return _NOT_XML.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
