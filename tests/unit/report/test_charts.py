"""Chart specifications for a report's script: which data, where, in which colours."""

import json
import re
from collections import Counter
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from mocketmq_report import document as d
from mocketmq_report import figures
from mocketmq_report.judge.drawn_limits import drawn_limits
from mocketmq_report.judge.thresholds import parse
from mocketmq_report.report.chart import Chart, LatenessAxis
from mocketmq_report.report.charts import bucket_names, buckets, charts
from mocketmq_report.report.spectrum_charts import comparison_chart
from mocketmq_report.report.time_charts import time_charts
from tests.support.reports import sample_comparison, sample_limits, sample_report

NAMES = ["spectrum", "time", "rate", "heat", "buckets", "stages", "herds"]
MINUTE_US = 60_000_000
T_US = 1_795_212_000_000_000


@cache
def drawn() -> dict[str, Chart]:
    return {chart.name: chart for chart in charts(sample_report(), sample_limits())}


def rows(chart: Chart, *fields: str) -> list[dict[str, Any]]:
    """Return the rows of the chart with these fields."""
    return [
        dict(zip(mark["fields"], row, strict=True))
        for mark in chart.spec["marks"]
        if set(fields) <= set(mark["fields"])
        for row in mark["rows"]
    ]


def strings(value: Any, key: str = "") -> list[tuple[str, str]]:
    """Yield all strings below a value, each with its key."""
    if isinstance(value, dict):
        return [found for name, each in value.items() for found in strings(each, name)]
    if isinstance(value, list):
        return [found for each in value for found in strings(each, key)]
    return [(key, value)] if isinstance(value, str) else []


def timeline(*instants: d.Instant, **changes: Any) -> d.Timeline:
    made = d.Timeline(step_us=MINUTE_US, instants=list(instants), cells=[], markers=[], markers_left_out=0)
    return replace(made, **changes)


def at(minute: int, count: int = 3, late_us: int | None = 5_000) -> d.Instant:
    return d.Instant(
        at_us=T_US + minute * MINUTE_US, count=count, p50_us=late_us, p99_us=late_us, max_us=late_us
    )


def test_a_report_has_all_charts_in_the_order_of_the_page() -> None:
    assert list(drawn()) == NAMES


def test_a_chart_without_data_is_left_out() -> None:
    report = sample_report()
    empty = [
        replace(row, measured=0, early=0, within=[0] * len(row.within), max_us=None)
        for row in report.lateness
    ]
    report = replace(
        report, lateness=empty, stages=[], timeline=timeline(at(0, 0, None)), herds=[], spectra=[]
    )
    assert list(charts(report)) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_chart_fetches_nothing(name: str) -> None:
    assert not [text for _, text in strings(drawn()[name].spec) if "://" in text]


def test_colours_are_css_variables() -> None:
    for chart in [*drawn().values(), comparison_chart(sample_comparison())]:
        assert chart is not None
        text = json.dumps(chart.spec)
        assert not re.findall(r'"#[0-9a-fA-F]{3,8}"', text), chart.name
        assert {key.color for key in chart.keys} <= set(re.findall(r"var\(--[a-z0-9-]+\)", text))


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([12, 80], (10, 100)),
        ([10, 100], (10, 100)),
        ([100], (100, 1_000)),
        ([], (1, 10)),
        ([None, 0, -5], (1, 10)),
        ([0, 0.5], (1, 10)),
        ([900, 59_000_000], (100, 60_000_000)),
        ([61_000_000, 3_600_000_000], (60_000_000, 3_600_000_000)),
        ([4e9, 9e10], (3_600_000_000, 864_000_000_000)),
        ([1e15], (864_000_000_000_000, 8_640_000_000_000_000)),
    ],
)
def test_lateness_axis_ends_at_ticks(values: list[float | None], ends: tuple[float, float]) -> None:
    y = LatenessAxis(values).axis()
    assert tuple(y["domain"]) == ends
    assert (y["ticks"][0][0], y["ticks"][-1][0]) == ends
    assert y["log"]


def test_values_below_the_axis_are_drawn_on_it() -> None:
    late = LatenessAxis([500, 70_000])
    assert [late.at(value) for value in (-3, 0, 99, 100, 2_000, None)] == [100, 100, 100, 100, 2_000, None]


def test_a_chart_can_begin_below_its_axis_of_lateness() -> None:
    y = LatenessAxis([500, 70_000]).axis(30)
    assert y["domain"][0] == 30
    assert y["ticks"][0] == (100, "100µs")


def spectrum(name: str, *points: tuple[float, int, int]) -> d.Spectrum:
    return d.Spectrum(
        dimension="total" if name == "total" else "level",
        name=name,
        points=[
            d.SpectrumPoint(percentile=percentile, value_us=value, count=count)
            for percentile, value, count in points
        ],
    )


def spectrum_of(spectra: list[d.Spectrum], *texts: str, **limits: Any) -> Chart:
    report = sample_report(spectra=spectra, **limits)
    chart = next(charts(report, list(drawn_limits(map(parse, texts), report))))
    assert chart.name == "spectrum"
    return chart


def test_spectrum_places_a_percentile_at_one_in_n() -> None:
    chart = spectrum_of([spectrum("total", (0, -3, 1), (50, 800, 50), (99, 9_000, 99), (100, 70_000, 120))])
    points = rows(chart, "share")
    assert [point["x"] for point in points] == [1, 2, 100, 120]
    assert [point["y"] for point in points] == [100, 800, 9_000, 70_000]
    assert [point["late"] for point in points] == [-3, 800, 9_000, 70_000]
    assert [point["share"] for point in points] == [0, 0.5, 0.99, 1]
    assert [point["count"] for point in points] == [1, 50, 99, 120]


def test_spectrum_keeps_the_maximum_behind_other_percentiles() -> None:
    chart = spectrum_of([spectrum("total", (99.9, 900, 10), (100, 900, 10))])
    assert [point["x"] for point in rows(chart, "share")] == [1_000, 1_000]


def test_the_spectrum_shows_first_the_level_with_the_worst_p99() -> None:
    spectra = [
        spectrum("total", (50, 10, 9)),
        spectrum("1", (50, 9_999, 1), (99, 10, 9)),
        spectrum("2", (50, 10, 1), (99, 2_000, 9)),
        spectrum("3", (50, 90_000, 9)),
    ]
    choice = spectrum_of(spectra).spec["choice"]
    assert choice["value"] == "level 2 (5s)"
    assert choice["options"] == ["level 1 (1s)", "level 2 (5s)", "level 3 (10s)"]


def test_the_spectrum_shows_first_a_level_that_failed_its_threshold() -> None:
    spectra = [spectrum("1", (99, 10, 9)), spectrum("2", (99, 2_000, 9))]
    chart = spectrum_of(spectra, "level=1 p50 <= 1µs", "level=2 p50 <= 1h")
    assert chart.spec["choice"]["value"] == "level 1 (1s)"


def test_spectrum_without_levels_offers_no_choice() -> None:
    chart = spectrum_of([spectrum("total", (50, 10, 9))])
    assert "choice" not in chart.spec
    assert [key.label for key in chart.keys] == ["total"]


def test_thresholds_of_percentiles_and_max_are_lines_of_their_groups() -> None:
    texts = (
        "level=3 p99 <= 50ms",
        "p50 <= 1h",
        "level=* max <= 10m",
        "level=* p99.9 <= 1s",  # no level has enough deliveries
        "topic=orders p99 <= 1s",
        "level=3 mean <= 1s",
        "early == 0",
    )
    spectra = [spectrum(name, (50, 800, 5), (100, 9_000, 40)) for name in ("total", "3", "4")]
    report = sample_report()
    level = next(row for row in report.lateness if (row.dimension, row.name) == ("level", "3"))
    chart = spectrum_of(spectra, *texts)
    limits = rows(chart, "verdict")
    assert [(limit["group"], limit["threshold"], limit["verdict"]) for limit in limits] == [
        ("total", "p50 <= 1h", "threshold, passed"),
        ("level 3 (10s)", "level=3 p99 <= 50ms", "threshold, failed"),
        ("level 3 (10s)", "level=* max <= 10m", "threshold, passed"),
        ("level 4 (30s)", "level=* max <= 10m", "threshold, passed"),
    ]
    assert [limit["x"] for limit in limits] == [2, 40, 40, 40]  # p99 lies beyond the chart's end
    assert [limit["y"] for limit in limits] == [3_600_000_000, 50_000, 600_000_000, 600_000_000]
    assert limits[1]["actual"] == level.percentiles["p99"]
    assert chart.spec["y"]["domain"][1] == 3_600_000_000  # leaves room for the lines too
    assert {key.label for key in chart.keys if key.label.startswith("threshold")} == {
        "threshold, passed",
        "threshold, failed",
    }


def test_unused_kinds_of_thresholds_are_not_explained() -> None:
    chart = spectrum_of([spectrum("total", (50, 800, 5))], "p50 <= 1h")
    assert [key.label for key in chart.keys] == ["total", "threshold, passed"]


def test_timeline_draws_a_line_per_step_and_none_in_gaps() -> None:
    chart = next(time_charts(timeline(at(0), at(1), at(4))))
    line = [row for row in rows(chart, "of", "y") if row["of"] == "p99"]
    minutes = [(row["t"] - T_US / 1_000) / 60_000 for row in line]
    assert list(zip(minutes, (row["y"] for row in line), strict=True)) == [
        *((0, 5_000), (1, 5_000), (2, 5_000), (2, None)),
        *((4, 5_000), (5, 5_000), (5, None)),
    ]


def test_step_without_deliveries_is_a_gap_on_the_axis() -> None:
    chart = next(time_charts(timeline(at(0, 0, None), at(1), at(2, 0, None))))
    assert {row["t"] for row in rows(chart, "of", "y")} == {T_US / 1_000 + 60_000, T_US / 1_000 + 120_000}
    assert chart.spec["x"]["domain"] == [T_US / 1_000, T_US / 1_000 + 3 * 60_000]


@pytest.mark.parametrize(
    ("step_us", "rates", "title"),
    [
        (MINUTE_US // 4, [0.2, 0.4], "Deliveries per second"),
        (2 * MINUTE_US, [1.5, 3], "Deliveries per minute"),
    ],
)
def test_the_unit_of_the_rate_fits_the_run(step_us: int, rates: list[float], title: str) -> None:
    rate = list(time_charts(timeline(at(0, 3), at(1, 6), step_us=step_us)))[1]
    assert rate.title == title
    assert [row["rate"] for row in rows(rate, "rate")] == rates
    assert {row["end"] - row["t"] for row in rows(rate, "rate")} == {step_us / 1_000}


def test_legend_names_only_drawn_lines() -> None:
    steps = timeline(d.Instant(at_us=T_US, count=5, p50_us=7, p99_us=None, max_us=9))
    assert [key.label for key in next(time_charts(steps)).keys] == ["p50", "max"]


def test_starts_and_moves_are_marked_on_every_chart_over_time() -> None:
    for name in ("time", "rate", "heat"):
        marks = rows(drawn()[name], "what")
        assert Counter(mark["what"] for mark in marks) == {"a broker started": 3, "its clock was moved": 1}, (
            name
        )
        assert [key.shape for key in drawn()[name].keys[-2:]] == ["up", "diamond"]
        move = next(mark for mark in marks if mark["what"] == "its clock was moved")
        assert move["to"] - move["t"] == 600_000


def test_a_marker_beside_the_axis_is_not_drawn() -> None:
    early, late = (
        d.Marker(kind="start", run="r", at_us=us, to_us=us) for us in (T_US - 1_000, T_US + 61_000_000)
    )
    inside = replace(early, at_us=T_US, to_us=T_US)
    chart = next(time_charts(timeline(at(0), markers=[early, late])))
    assert not rows(chart, "what")
    assert [key.label for key in chart.keys] == ["p50", "p99", "max"]
    chart = next(time_charts(timeline(at(0), markers=[early, inside])))
    assert {mark["t"] for mark in rows(chart, "what")} == {T_US / 1_000}


def cell(low_us: int, high_us: int, count: int) -> d.Cell:
    return d.Cell(at_us=T_US, low_us=low_us, high_us=high_us, count=count)


def heat(*cells: d.Cell) -> Chart:
    return list(time_charts(timeline(at(0), cells=list(cells))))[2]


def test_heat_map_has_every_cell_and_an_early_row() -> None:
    chart = heat(cell(-500, -200, 3), cell(-200, 0, 1), cell(0, 100, 2), cell(100, 200, 900))
    cells, early = [
        [row for row in rows(chart, "heat") if (row["heat"] == "early") is is_early]
        for is_early in (False, True)
    ]
    assert [(row["low"], row["high"], row["count"]) for row in cells] == [(0, 100, 2), (100, 200, 900)]
    assert [(row["low"], row["high"], row["count"]) for row in early] == [(-500, -200, 3), (-200, 0, 1)]
    assert chart.keys[-1].label == "early"


def test_the_heat_map_has_no_early_row_without_early_cells() -> None:
    chart = heat(cell(0, 100, 2))
    assert "early" not in [key.label for key in chart.keys]
    assert chart.spec["y"]["domain"] == [10, 100]


@pytest.mark.parametrize("most", [1, 2, 3, 5, 7, 27, 64, 1_000, 123_456])
def test_heat_map_colours_cover_every_count_once(most: int) -> None:
    counts = sorted({1, *(round(most ** (n / 20)) for n in range(21))})
    chart = heat(*(cell(100, 200, count) for count in counts))
    ranges = [tuple(int(n) for n in key.label.replace(",", "").split("–")) for key in chart.keys]
    assert ranges[0][0] == 1
    assert ranges[-1][-1] == most
    assert all(before[-1] + 1 == after[0] for before, after in pairwise(ranges))
    assert len({key.color for key in chart.keys}) == len(chart.keys) <= 6
    assert chart.keys[-1].color == "var(--heat-5)"
    for row in rows(chart, "heat"):
        low, high = (int(row["heat"].replace(",", "").split("–")[n]) for n in (0, -1))
        assert low <= int(row["count"]) <= high


def test_each_message_is_in_one_bucket() -> None:
    report = sample_report()
    for row in report.lateness:
        assert sum(buckets(row)) == row.measured
        assert len(buckets(row)) == len(bucket_names(report.header)) == 8
        assert buckets(row)[0] == row.early
    assert bucket_names(report.header)[:3] == ["early", "≤ 10ms", "≤ 100ms"]
    assert bucket_names(report.header)[-2:] == ["≤ 1m", "> 1m"]


def test_buckets_of_each_level_add_up_to_the_whole() -> None:
    report = sample_report()
    bars: Counter[str] = Counter()
    for part in rows(drawn()["buckets"], "bucket"):
        bars[part["group"]] += part["share"]
    measured = [row for row in report.lateness if row.dimension == "level" and row.measured]
    names = [f"{row.name} · {row.delay}" for row in measured]
    assert list(bars) == ["total", *names, "start-deliver time"]
    assert list(bars.values()) == pytest.approx([1] * len(bars))


def test_bucket_colours_span_good_to_bad() -> None:
    header = replace(sample_report().header, cutoffs_us=[50_000])
    lateness = [replace(row, within=row.within[:1]) for row in sample_report().lateness]
    chart = next(c for c in charts(sample_report(header=header, lateness=lateness)) if c.name == "buckets")
    assert [(key.label, key.color) for key in chart.keys] == [
        ("early", "var(--early)"),
        ("≤ 50ms", "var(--late-0)"),
        ("> 50ms", "var(--late-6)"),
    ]


def test_the_stages_of_a_bar_add_up_to_the_time_of_its_messages() -> None:
    report = sample_report()
    sums: Counter[str] = Counter()
    for part in rows(drawn()["stages"], "mean"):
        sums[part["group"]] += part["mean"]
    totals = {
        stage.name.replace("directories", "start-deliver time"): stage.mean_us
        for stage in report.stages
        if stage.stage == "total" and stage.name != "levels" and stage.complete
    }
    assert {group.split(" · ")[0]: mean for group, mean in sums.items()} == {
        name: pytest.approx(mean) for name, mean in totals.items()
    }


def test_stages_are_in_the_order_of_a_delivery() -> None:
    parts = [part for part in rows(drawn()["stages"], "mean") if part["group"] == "total"]
    assert [part["stage"] for part in parts] == [figures.stage(stage) for stage in d.STAGES]


def test_the_herd_has_three_marks_for_each_number_of_messages_due() -> None:
    report = sample_report()
    marks = rows(drawn()["herds"], "of", "y")
    assert len(marks) == 3 * len(report.herds)
    assert [key.shape for key in drawn()["herds"].keys] == ["circle", "diamond", "up"]
    last = report.herds[-1]
    assert [mark["y"] for mark in marks[len(report.herds) - 1 :: len(report.herds)]] == [
        pytest.approx(value) for value in (last.mean_us, max(last.p50_max_us, 1_000), last.max_us)
    ]
    assert marks[-1]["due"] == f"{last.due_low}–{last.due_high}"
    assert marks[0]["due"] == "1"


def test_compared_reports_differ_in_colour_and_dash() -> None:
    comparison = sample_comparison()
    side = comparison.sides[0]
    comparison = replace(comparison, sides=[replace(side, name=f"run {number}") for number in range(4)])
    chart = comparison_chart(comparison)
    assert chart is not None
    assert [key.label for key in chart.keys] == ["run 0", "run 1", "run 2", "run 3"]
    assert len({key.color for key in chart.keys}) == 4
    assert [key.shape for key in chart.keys] == ["line", "dash", "dot", "line"]


def test_comparison_starts_with_the_total_and_offers_levels() -> None:
    chart = comparison_chart(sample_comparison())
    assert chart is not None
    choice = chart.spec["choice"]
    assert choice["value"] == choice["options"][0] == "total"
    assert "level 3 (10s)" in choice["options"]
    assert {row["side"] for row in rows(chart, "side")} == {"exact", "rocketmq4"}


def test_a_comparison_without_distributions_has_no_chart() -> None:
    comparison = sample_comparison()
    sides = [replace(side, spectra=[]) for side in comparison.sides]
    assert comparison_chart(replace(comparison, sides=sides)) is None


@pytest.mark.parametrize(
    ("minutes", "times"),
    [
        (1, ["22:00:00", "22:00:05", "22:00:10"]),
        (60, ["22:00:00", "22:05:00", "22:10:00"]),
        (24 * 60, ["00:00:00", "03:00:00", "06:00:00"]),
    ],
)
def test_ticks_of_time_are_round(minutes: int, times: list[str]) -> None:
    start = T_US + (0 if minutes < 24 * 60 else 2 * 60 * MINUTE_US)
    instants = [replace(at(0), at_us=start), replace(at(0), at_us=start + (minutes - 1) * MINUTE_US)]
    ticks = next(time_charts(timeline(*instants))).spec["x"]["instants"]
    assert [f"{datetime.fromtimestamp(ms / 1_000, UTC):%H:%M:%S}" for ms in ticks[:3]] == times
    assert len(ticks) <= 14


@pytest.mark.parametrize(
    ("counts", "labels"),
    [
        ([1, 3], ["0", "1", "2", "3"]),
        ([70], ["0", "20", "40", "60", "80"]),
        ([4_000], ["0", "1,000", "2,000"]),
    ],
)
def test_ticks_of_the_rate_are_round_and_hold_all_bars(counts: list[int], labels: list[str]) -> None:
    axis = list(time_charts(timeline(*(at(n, count) for n, count in enumerate(counts)))))[1].spec["y"]
    assert [label for _, label in axis["ticks"]][: len(labels)] == labels
    assert axis["domain"] == [0, axis["ticks"][-1][0]]
    assert axis["domain"][1] >= max(counts)
