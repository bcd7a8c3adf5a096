"""Writes the report of a lab as Markdown: its tables, for a comment or a page of docs."""

from collections.abc import Iterator

from mocketmq_report import figures
from mocketmq_report.lab.document import DelayLateness, LabReport
from mocketmq_report.lab.html import facts, inexact, size, whole_bytes
from mocketmq_report.report.markdown import plain, table


def lab_markdown(lab: LabReport) -> str:
    """Make the text. Users' text is escaped."""
    return "\n\n".join(_parts(lab)) + "\n"


def _parts(lab: LabReport) -> Iterator[str]:
    yield f"## {plain(lab.title)}: {len(lab.subjects)} side by side"
    yield "<br>\n".join(f"{name}: {plain(value)}" for name, value in facts(lab))
    said = [f"{each.name} is left out: {each.reason}" for each in lab.left_out]
    said += [f"{each.name}: {note}" for each in lab.subjects for note in each.notes]
    if error := inexact(lab):
        said.append(f"lateness: {error}")
    if said:
        yield "\n".join(f"- {plain(each)}" for each in said)
    columns = [">measured", ">early", ">overdue", ">p50", ">p90", ">p99", ">p99.9", ">max"]
    rows = ([plain(each.name), *_late(each.lateness[0])] for each in lab.subjects)
    yield table(["lateness", *columns], rows)
    by_delay = ([plain(each.name), row.of, *_late(row)] for each in lab.subjects for row in each.lateness[1:])
    yield table(["lateness", "delay", *columns], by_delay)
    throughput = (
        [
            plain(each.name),
            figures.rate(each.saves_per_second),
            *(
                [figures.rate(each.herd.per_second), *_late(each.herd.late)[3:]]
                if each.herd
                else [figures.NONE] * 6
            ),
        ]
        for each in lab.subjects
    )
    yield table(["throughput", ">saves", ">herd delivered", *columns[3:]], throughput)
    pending = [
        [
            plain(each.name),
            figures.count(step.pending),
            figures.duration(step.start_us),
            size(step.memory_bytes),
            whole_bytes(step.memory_each),
            size(step.disk_bytes),
            whole_bytes(step.disk_each),
        ]
        for each in lab.subjects
        for step in each.growth
    ]
    if pending:
        yield table(["pending", ">messages", ">start", ">memory", ">for each", ">disk", ">for each"], pending)


def _late(row: DelayLateness) -> list[str]:
    values = (row.p50_us, row.p90_us, row.p99_us, row.p999_us, row.max_us)
    counts = (row.measured, row.early, row.overdue)
    return [*map(figures.count, counts), *map(figures.duration, values)]
