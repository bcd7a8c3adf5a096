"""Make a lateness report, and show it.

Its page runs scripts and shows what messages hold. So it is served in a sandbox: without the origin of this
API, by which alone a page in a browser could use it.
"""

from typing import Final

import msgspec
from aiohttp import web

from mocketmq.clock import US_PER_MS
from mocketmq.errors import ReportError, ReportNotFoundError
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
    """A report by its name."""

    report: str


class ReportOut(msgspec.Struct, frozen=True):
    """The path of a report's page, and the instant at which it was asked for."""

    page: str
    at_ms: int


class ReportStateOut(msgspec.Struct, frozen=True):
    """What is done for the report that is being made, and where the newest one is.

    `step` is null while none is being made; else it is the one of this `number` among all `steps`. `page` and
    `at_ms` are null before the first report.
    """

    step: str | None
    number: int
    steps: int
    page: str | None
    at_ms: int | None


async def report_state(call: ApiCall, _: NoInput) -> ReportStateOut:
    """A report takes seconds; whoever waits for one can be told what is being done."""
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


async def make_report(call: ApiCall, _: NoInput) -> ReportOut:
    """Answers when it is made, which takes seconds; whoever asks meanwhile is answered with the same one.

    It is that of `mocketmq report --quick`, made in another process. A broker that keeps its data in memory
    copies it to a temporary file, without messages that wait for an absolute due time. `page` can be opened
    without the token by whoever knows it, until the next report is made.
    """
    made = await call.api.reports.make()
    return ReportOut(_page(made), made.at_us // US_PER_MS)


async def report(call: ApiCall, path: ReportPath) -> web.Response:
    """An HTML page that needs no network. It is shown in a sandbox, where it cannot use this API."""
    html = call.api.reports.page(path.report)
    return web.Response(body=html, content_type=HTML, charset="utf-8", headers=_HEADERS)


REPORTS = RouteGroup(
    "reports",
    "How late deliveries were",
    [
        Route("GET", "/v1/reports", report_state, "See how far a lateness report is", ReportStateOut),
        Route("POST", "/v1/reports", make_report, "Make a lateness report", ReportOut, errors=[ReportError]),
        Route(
            "GET",
            "/v1/reports/{report}",
            report,
            "Read a lateness report",
            HTML,
            ReportPath,
            is_open=True,
            errors=[ReportNotFoundError],
        ),
    ],
)
