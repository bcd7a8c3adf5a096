"""Draws the charts of a lab. Each chart shows all subjects, in the same colours."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from mocketmq.clock import US_PER_S
from mocketmq_report import figures
from mocketmq_report.lab.document import GrowthStep, LabReport, Subject
from mocketmq_report.report.chart import (
    Chart,
    Format,
    LatenessAxis,
    LegendEntry,
    Spec,
    Tip,
    colors,
    duration_axis,
    line,
    mark,
    subject_keys,
)
from mocketmq_report.report.spectrum_charts import side_by_side

_HEIGHT: Final = 280
_BAR: Final = 26
_TICKS: Final = 5
_MB: Final = 1e6


def lab_charts(lab: LabReport) -> Iterator[Chart]:
    """Make all charts that have data."""
    names = [each.name for each in lab.subjects]
    keys = dict(zip(names, subject_keys(names), strict=True))
    spectra = [(keys[each.name], each.spectrum) for each in lab.subjects if each.spectrum]
    if spectra:
        yield side_by_side(spectra)
    timed = [each for each in lab.subjects if each.timeline]
    if timed:
        yield _over_time(timed, keys)
    if any(each.saves_per_second for each in lab.subjects):
        yield _throughput(lab.subjects)
    grown = [each for each in lab.subjects if len(each.growth) > 1]
    if grown:
        yield _growth(
            grown,
            keys,
            "Start",
            "From the start of the process until the broker is ready, by the number of pending messages.",
            lambda step: step.start_us,
            "duration",
        )
        if all(step.memory_bytes is not None for each in grown for step in each.growth):
            yield _growth(
                grown,
                keys,
                "Memory",
                "Memory of the broker’s process when it is ready.",
                lambda step: (step.memory_bytes or 0) / _MB,
                "count",
            )
        yield _growth(
            grown,
            keys,
            "Disk",
            "Size of the data directory.",
            lambda step: step.disk_bytes / _MB,
            "count",
        )


def _over_time(subjects: Sequence[Subject], keys: dict[str, LegendEntry]) -> Chart:
    late = LatenessAxis(each.max_us for subject in subjects for each in subject.timeline)
    most_us = max(each.after_us for subject in subjects for each in subject.timeline)
    tip = [
        *(Tip("of", "of", "text"), Tip("after", "x", "duration"), Tip("max", "max", "duration")),
        Tip("deliveries", "count", "count"),
    ]
    lines = (
        line(
            keys[subject.name],
            (
                {"of": keys[subject.name].label, "x": each.after_us, "y": late.at(each.max_us)}
                | {"max": each.max_us, "count": each.count}
                for each in subject.timeline
            ),
            tip,
        )
        for subject in subjects
    )
    spec = {
        "height": _HEIGHT,
        "x": duration_axis(max(most_us, US_PER_S), "time since the first delivery"),
        "y": late.axis(),
        "marks": list(lines),
    }
    note = "The greatest lateness in each step of time. The subjects ran one after the other."
    return Chart("time", "Lateness over time", note, [keys[each.name] for each in subjects], spec)


def _throughput(subjects: Sequence[Subject]) -> Chart:
    values: dict[str, Callable[[Subject], float | None]] = {
        "saves": lambda each: each.saves_per_second,
        "deliveries of the herd": lambda each: each.herd.per_second if each.herd else None,
    }
    rows = [
        {"of": figures.harmless(each.name)} | {name: value(each) for name, value in values.items()}
        for each in subjects
        if each.saves_per_second
    ]
    key = LegendEntry("a second", "var(--accent)", "box")
    tip = [Tip("of", "of", "text"), *(Tip(f"{name} a second", name, "count") for name in values)]
    bars = [row | {"kind": key.label} for row in rows]
    spec = {
        "height": _BAR * len(rows),
        "x": {name: _axis([row[name] for row in rows], f"{name} a second") for name in values},
        "y": {"bands": [row["of"] for row in rows], "areNames": True, "title": "scheme"},
        "choice": {"options": list(values), "value": "saves"},
        "marks": [mark("bar", bars, y="of", color="kind", colors=colors([key]), tip=tip)],
    }
    note = "Saves while many are in flight, and deliveries of a herd due at one instant."
    return Chart("throughput", "Throughput", note, [key], spec)


def _growth(
    subjects: Sequence[Subject],
    keys: dict[str, LegendEntry],
    title: str,
    note: str,
    value: Callable[[GrowthStep], float],
    unit: Format,
) -> Chart:
    """Draw a chart over the number of pending messages, on a logarithmic axis from the first above 0."""
    sizes = sorted({step.pending for each in subjects for step in each.growth if step.pending})
    values = [value(step) for each in subjects for step in each.growth]
    shown = "MB" if unit == "count" else title.lower()
    tip = [Tip("of", "of", "text"), Tip("pending", "x", "count"), Tip(shown, "y", unit)]
    marks = []
    for each in subjects:
        key = keys[each.name]
        rows = [
            {"of": key.label, "x": step.pending, "y": round(value(step), 3)}
            for step in each.growth
            if step.pending
        ]
        marks.append(line(key, rows, tip))
        marks.append(mark("point", rows, x="x", y="y", color=key.color, shape="circle", tip=tip))
    spec = {
        "height": _HEIGHT,
        "x": {
            "log": True,
            "domain": [sizes[0], max(sizes[-1], sizes[0] + 1)],
            "ticks": [(size, figures.count(size)) for size in sizes],
            "title": "pending messages",
            "hasGrid": True,
        },
        "y": duration_axis(max(values), shown) if unit == "duration" else _axis(values, shown),
        "marks": marks,
    }
    return Chart(title.lower(), title, note, [keys[each.name] for each in subjects], spec)


def _axis(values: Iterable[Any], title: str) -> Spec:
    """Make an axis from 0 to the greatest value, with round numbers."""
    most = max([each for each in values if each], default=1.0)
    step = next(
        digit * 10.0**power
        for power in range(-3, 15)
        for digit in (1, 2, 5)
        if digit * 10.0**power * _TICKS >= most
    )
    ticks = [step * number for number in range(_TICKS + 1) if step * number <= most]
    return {
        "domain": [0, most],
        "ticks": [(tick, f"{tick:,.10g}") for tick in ticks],
        "title": title,
        "hasGrid": True,
    }
