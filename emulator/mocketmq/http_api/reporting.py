"""Routes for lateness reports: make a report, follow its progress, show its page.

The page runs scripts and shows the contents of messages. The page is therefore served in a sandbox, which
takes away the API's origin, so that the page cannot call the API.
"""

from typing import Final

import msgspec

from mocketmq.clock import US_PER_MS
from mocketmq.errors import ReportError, ReportNotFoundError
from mocketmq.http_api import web
from mocketmq.http_api.access import CLUSTER_GET
from mocketmq.http_api.fields import Input, NoInput
from mocketmq.http_api.operations import HTML
from mocketmq.http_api.reports import STEPS, MadeReport
from mocketmq.http_api.route import ApiCall, Route, RouteGroup

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline';"
    " style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class ReportPath(Input, frozen=True):
    """The name of a report."""

    report: str


class ReportOut(msgspec.Struct, frozen=True):
    """The path of a report's page, and the broker's time when the report was requested."""

    page: str
    at_ms: int


class ReportStateOut(msgspec.Struct, frozen=True):
    """The progress of the report that is being generated, and the page of the latest report.

    `step` is step `number` of `steps`, and null while no report is being generated. `page` and `at_ms` are
    null before the first report.
    """

    step: str | None
    number: int
    steps: int
    page: str | None
    at_ms: int | None


REPORTS = RouteGroup("reports", "Lateness reports")


@Route(REPORTS, "GET /v1/reports", "Show the progress of a lateness report")
async def report_state(call: ApiCall, _: NoInput) -> ReportStateOut:
    """Returns the current step of the report being made. Making a report takes seconds."""
    step, newest = call.api.reports.step, call.api.reports.newest
    return ReportStateOut(
        STEPS[step - 1] if step else None,
        step,
        len(STEPS),
        _page(newest) if newest else None,
        newest.at_us // US_PER_MS if newest else None,
    )


def _page(made: MadeReport) -> str:
    return f"/v1/reports/{made.name}"


@Route(REPORTS, "POST /v1/reports", "Make a lateness report", errors=[ReportError], needs=CLUSTER_GET)
async def make_report(call: ApiCall, _: NoInput) -> ReportOut:
    """Responds when the report is complete, which takes seconds. Concurrent requests get the same report.

    A separate process runs `mocketmq report --quick`. A broker that keeps its data in memory first copies the
    data to a temporary file, without messages that wait for an absolute due time. Until the next report is
    made, anyone who knows `page` can open it without the token.
    """
    made = await call.api.reports.make()
    return ReportOut(_page(made), made.at_us // US_PER_MS)


@Route(
    REPORTS,
    "GET /v1/reports/{report}",
    "Read a lateness report",
    media_type=HTML,
    is_open=True,
    errors=[ReportNotFoundError],
)
async def report(call: ApiCall, path: ReportPath) -> web.Response:
    """Returns a self-contained HTML page. A sandbox prevents the page from using this API."""
    html = call.api.reports.page(path.report)
    return web.Response(body=html, content_type=HTML, charset="utf-8", headers=_HEADERS)
