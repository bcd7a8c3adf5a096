"""Makes and writes the report of a lab from a lateness report of each ledger and the other measurements."""

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from mocketmq import __version__
from mocketmq.clock import US_PER_S, wall_us
from mocketmq.duration import format_duration
from mocketmq.lab import load as given
from mocketmq.lab.measured import Growth, MeasuredSubject, Results
from mocketmq_report.document import Lateness, Report
from mocketmq_report.job import Job, ReportRunner, run
from mocketmq_report.lab.document import (
    DelayLateness,
    GrowthStep,
    HerdRun,
    LabReport,
    LeftOut,
    Load,
    Machine,
    Subject,
    TimelineStep,
)
from mocketmq_report.lab.html import lab_html
from mocketmq_report.lab.markdown import lab_markdown
from mocketmq_report.progress import ProgressCallback
from mocketmq_report.report.output import put

PAGE: Final = "lab.html"
_ALL: Final = "all"


def make_lab_report(
    runner: ReportRunner,
    load: given.Load,
    results: Results,
    place: Path,
    title: str,
    progress: ProgressCallback,
) -> LabReport:
    """Read the ledgers of all subjects. Raises BrokenLedgerError if a ledger is unreadable."""
    return LabReport(
        title=title,
        version=__version__,
        spark=runner.version,
        created_wall_us=wall_us(),
        machine=Machine(
            host=platform.node(),
            cores=os.cpu_count() or 1,
            python=platform.python_version(),
            system=f"{platform.system()} {platform.release()}",
            load_average=[round(each, 2) for each in os.getloadavg()],
            directory=str(place.resolve().parent),
        ),
        load=Load(
            rate=load.rate,
            seconds=load.seconds,
            delays=[format_duration(each) for each in load.delays_us],
            size=load.size,
            herd=load.herd,
            in_flight=given.IN_FLIGHT,
            pending=list(load.pending),
            delay_sync=load.delay_sync,
        ),
        subjects=[_subject(runner, each, load, progress) for each in results.measured],
        left_out=[LeftOut(name=each.name, reason=each.reason) for each in results.skipped],
    )


def _subject(
    runner: ReportRunner, each: MeasuredSubject, load: given.Load, progress: ProgressCallback
) -> Subject:
    report = _report(runner, each.ledger, each.name, progress)
    return Subject(
        name=each.name,
        kind=each.kind,
        version=each.version,
        lateness=list(_lateness(report, each.delays)),
        lateness_error_us=each.lateness_error_us,
        spectrum=next((it for it in report.spectra if it.dimension == "total" and it.points), None),
        timeline=list(_timeline(report)),
        saves_per_second=each.saves_per_second,
        herd=_herd(_report(runner, each.herd, f"{each.name}: herd", progress), load) if each.herd else None,
        growth=[_growth(step, each.growth[0]) for step in each.growth],
        notes=[*each.notes, *report.header.warnings],
    )


def _report(runner: ReportRunner, ledger: Path, name: str, progress: ProgressCallback) -> Report:
    def tell(what: str, done: int, total: int | None) -> None:
        progress(f"{name}: {what}", done, total)

    return run(runner, Job(data=(str(ledger),), title=name), tell)


def _lateness(report: Report, delays: dict[str, str]) -> Iterator[DelayLateness]:
    """Return the lateness of all deliveries, and of each delay, which is a topic or a level."""
    rows = {(row.dimension, row.name): row for row in report.lateness}
    yield _late(_ALL, rows["total", "total"])
    for delay, name in delays.items():
        found = rows.get(("level", name)) or rows.get(("topic", name))
        if found is not None:
            yield _late(delay, found)


def _late(of: str, row: Lateness) -> DelayLateness:
    return DelayLateness(
        of=of,
        measured=row.measured,
        overdue=row.overdue,
        early=row.early,
        mean_us=row.mean_us,
        p50_us=row.percentiles["p50"],
        p90_us=row.percentiles["p90"],
        p99_us=row.percentiles["p99"],
        p999_us=row.percentiles["p99.9"],
        max_us=row.max_us,
    )


def _timeline(report: Report) -> Iterator[TimelineStep]:
    instants = [each for each in report.timeline.instants if each.count]
    for each in instants:
        if each.max_us is not None:
            after_us = each.at_us - instants[0].at_us
            yield TimelineStep(after_us=after_us, count=each.count, p50_us=each.p50_us, max_us=each.max_us)


def _herd(report: Report, load: given.Load) -> HerdRun:
    late = _late(_ALL, report.lateness[0])
    per_second = late.measured * US_PER_S / late.max_us if late.max_us else None
    return HerdRun(messages=load.herd, per_second=per_second, late=late)


def _growth(step: Growth, empty: Growth) -> GrowthStep:
    memory = None
    if step.memory_bytes is not None and empty.memory_bytes is not None and step.pending:
        memory = (step.memory_bytes - empty.memory_bytes) / step.pending
    return GrowthStep(
        pending=step.pending,
        start_us=step.start_us,
        memory_bytes=step.memory_bytes,
        disk_bytes=step.disk_bytes,
        memory_each=memory,
        disk_each=(step.disk_bytes - empty.disk_bytes) / step.pending if step.pending else None,
    )


def lab_json(lab: LabReport) -> bytes:
    """Encode the report as ``docs/lab.schema.json`` describes it."""
    return msgspec.json.format(msgspec.json.encode(lab), indent=1)


def write_lab(lab: LabReport, out: str) -> str:
    """Write all forms, and return the path of the page. Raises WriteError."""
    forms = {
        PAGE: lab_html(lab).encode(),
        "lab.json": lab_json(lab),
        "lab.md": lab_markdown(lab).encode(),
    }
    for name, content in forms.items():
        put(f"{out.rstrip('/')}/{name}", content)
    return f"{out.rstrip('/')}/{PAGE}"
