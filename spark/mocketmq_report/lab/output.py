"""Write all forms of a lab's report to a directory: a page, JSON and Markdown."""

from typing import Final

import msgspec

from mocketmq_report.lab.document import LabReport
from mocketmq_report.lab.html import lab_html
from mocketmq_report.lab.markdown import lab_markdown
from mocketmq_report.report.output import put

PAGE: Final = "lab.html"


def lab_json(lab: LabReport) -> bytes:
    """The report as ``docs/lab.schema.json`` describes it."""
    return msgspec.json.format(msgspec.json.encode(lab), indent=1)


def write_lab(lab: LabReport, out: str) -> str:
    """Write all forms, and return where the page is. Raises WriteError."""
    forms = {
        PAGE: lab_html(lab).encode(),
        "lab.json": lab_json(lab),
        "lab.md": lab_markdown(lab).encode(),
    }
    for name, content in forms.items():
        put(f"{out.rstrip('/')}/{name}", content)
    return f"{out.rstrip('/')}/{PAGE}"
