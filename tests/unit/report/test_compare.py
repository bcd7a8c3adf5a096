from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mocketmq_report.document import Change, Judgement, Report
from mocketmq_report.judge.compare import ReportUnreadableError, compare, load_report, parse_rule
from mocketmq_report.judge.condition import InvalidThresholdError
from tests.support.reports import sample_report, simulated

EXACT = simulated("exact", "exact", False, 4)
FAITHFUL = simulated("rocketmq4", "rocketmq4", False, 4)
MOVED = simulated("moved", "exact", True, 4)


def changed(report: Report, dimension: str, name: str, **changes: Any) -> Report:
    """Return the report with other figures for one group."""
    rows: dict[str, list[Any]] = {"lateness": [], "reconciliation": []}
    for table, found in rows.items():
        for row in getattr(report, table):
            of_row = {key: value for key, value in changes.items() if hasattr(row, key)}
            found.append(replace(row, **of_row) if (row.dimension, row.name) == (dimension, name) else row)
    return replace(report, **rows)


def titled(report: Report, title: str, **changes: Any) -> Report:
    return replace(report, header=replace(report.header, title=title, **changes))


def of_runs(report: Report, **changes: Any) -> Report:
    """Return the report with other runs."""
    return titled(report, "other", runs=[replace(run, **changes) for run in report.header.runs])


def judged(text: str, candidate: Report = FAITHFUL, baseline: Report = EXACT) -> Judgement:
    return compare(candidate, [baseline], [parse_rule(text)]).judgements[0]


def change(candidate: Report, baseline: Report, metric: str, name: str = "total") -> Change:
    changes = compare(candidate, [baseline]).changes
    return next(one for one in changes if (one.name, one.metric) == (name, metric))


# Sides and changes.


def test_the_baseline_is_the_first_side_and_the_report_the_last() -> None:
    made = compare(FAITHFUL, [EXACT, MOVED])
    assert [side.name for side in made.sides] == ["exact", "moved", "rocketmq4"]
    assert [side.header for side in made.sides] == [EXACT.header, MOVED.header, FAITHFUL.header]
    assert {one.dimension for side in made.sides for one in side.spectra} == {"total", "level"}
    assert made.sides[2].spectra == FAITHFUL.spectra


@pytest.mark.parametrize(
    ("titles", "names"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a (2)", "a (3)"]),
        (["a", "a", "a (2)"], ["a", "a (3)", "a (2)"]),
        (["a (2)", "a", "a"], ["a (2)", "a", "a (3)"]),
    ],
)
def test_equal_names_are_distinguished(titles: list[str], names: list[str]) -> None:
    reports = [titled(EXACT, title) for title in titles]
    assert [side.name for side in compare(reports[-1], reports[:-1]).sides] == names


def test_changes_are_to_the_first_baseline() -> None:
    first, second, third = (
        changed(EXACT, "total", "total", max_us=max_us, on_time_share=share, measured=10 * max_us)
        for max_us, share in ((100, 0.5), (150, 0.75), (80, 0.4))
    )
    changes = {one.metric: one for one in compare(third, [first, second]).changes if one.name == "total"}
    assert changes["max"] == Change(
        dimension="total",
        name="total",
        delay=None,
        metric="max",
        values=[100, 150, 80],
        deltas=[0, 50, -20],
        ratios=[1, 1.5, 0.8],
    )
    assert changes["on_time_share"].deltas == pytest.approx([0, 0.25, -0.1])
    assert changes["measured"].values == [1_000, 1_500, 800]


def test_every_figure_of_every_group_is_compared_once() -> None:
    changes = compare(FAITHFUL, [EXACT]).changes
    metrics = [one.metric for one in changes if one.dimension == "total"]
    assert metrics == [
        *("measured", "on_time_share", "early", "overdue", "min"),
        *("p50", "p90", "p99", "p99.9", "mean", "max", "lost", "repeats"),
    ]
    groups = [(one.dimension, one.name) for one in changes]
    assert len({(one.dimension, one.name, one.metric) for one in changes}) == len(changes)
    assert groups.count(("level", "18")) == len(metrics)
    assert {dimension for dimension, _ in groups} == {"total", "level", "scheme", "topic"}
    rows = {(row.dimension, row.name): row for row in FAITHFUL.lateness}
    for one in changes:
        row = rows[one.dimension, one.name]
        if one.metric in row.percentiles:
            assert one.values[1] == row.percentiles[one.metric]
        if one.metric == "min":
            assert (one.values[1], one.delay) == (row.min_us, row.delay)
    assert next(one for one in changes if one.metric == "lost").values == [1, 1]


def test_figures_of_one_report_only_have_no_change() -> None:
    row = replace(next(row for row in EXACT.lateness if row.dimension == "topic"), name="refunds")
    more = replace(EXACT, lateness=[*EXACT.lateness, row])
    found = change(more, EXACT, "max", "refunds")
    assert (found.values, found.deltas, found.ratios) == ([None, row.max_us], [None, None], [None, None])
    found = change(EXACT, more, "max", "refunds")
    assert (found.values, found.deltas, found.ratios) == ([row.max_us, None], [0, None], [1, None])
    assert change(EXACT, EXACT, "lost", "orders").values == [None, None]
    percentiles = {"p50": 1, "p99.95": 7}
    asked = changed(EXACT, "total", "total", percentiles=percentiles)
    assert change(asked, EXACT, "p99.95").values == [None, 7]


@pytest.mark.parametrize(("base", "ratios"), [(0, [None, None]), (-5, [None, None]), (5, [1, 2])])
def test_only_values_above_0_have_multiples(base: int, ratios: list[float | None]) -> None:
    baseline, candidate = (changed(EXACT, "total", "total", min_us=value) for value in (base, 10))
    found = change(candidate, baseline, "min")
    assert (found.deltas, found.ratios) == ([0, 10 - base], ratios)


def test_times_of_a_moved_clock_are_not_compared_but_counts_are() -> None:
    for candidate, baseline in ((MOVED, EXACT), (EXACT, MOVED)):
        made = compare(candidate, [baseline])
        assert not made.is_performance
        for one in made.changes:
            is_count = one.metric in ("measured", "early", "overdue", "lost", "repeats")
            if one.values[0] is not None:
                assert (one.deltas[1] is not None) == is_count, one
            if not is_count:
                assert one.deltas == one.ratios == [None, None]
        assert "the clock was moved or not real in moved: times are not compared" in made.differences
    assert compare(FAITHFUL, [EXACT]).is_performance


def test_on_time_by_two_measures_is_not_compared() -> None:
    other = titled(EXACT, "other", on_time_us=1_000_000)
    made = compare(other, [EXACT])
    assert made.differences == ["the measure of on time differs: 100ms in exact and 1s in other"]
    assert change(other, EXACT, "on_time_share").deltas == [None, None]
    assert change(other, EXACT, "max").deltas == [0, 0]
    assert judged("on_time < -0.1%", other).reason == (
        "the reports measure on time differently: name it, as in on_time(100ms)"
    )
    assert judged("on_time(2s) < -0.1%", other).passed


# Differences.


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"version": "0.5.0"}, "the broker's version differs: 0.4.0 in exact and 0.5.0 in other"),
        ({"host": "laptop"}, "the host differs: runner-7 in exact and laptop in other"),
        ({"profile": "rocketmq4"}, "the profile differs: exact in exact and rocketmq4 in other"),
        ({"clock": "x10"}, "the clock differs: real in exact and x10 in other"),
        ({"levels": "1s 2s"}, "the table of levels differs: 1s 5s 10s 30s 1m"),
        ({"durability": "normal"}, "the durability differs: full in exact and normal in other"),
        ({"deliveries": 100, "per_second": 0.1}, "the load differs: 0.39/s in exact and 0.1/s in other"),
    ],
)
def test_differing_headers_are_reported(changes: dict[str, Any], sentence: str) -> None:
    differences = compare(of_runs(EXACT, **changes), [EXACT]).differences
    assert len(differences) == 1
    assert differences[0].startswith(sentence)


def test_the_method_and_differing_runs_are_reported() -> None:
    runs = [replace(run, host=host) for run, host in zip(EXACT.header.runs, "aba", strict=True)]
    other = titled(EXACT, "other", method="bins", runs=runs)
    assert compare(other, [EXACT]).differences == [
        "the host differs: runner-7 in exact and a, b in other",
        "the method of percentiles differs: exact in exact and bins in other",
    ]
    assert compare(titled(EXACT, "none", runs=[]), [EXACT]).differences[0] == (
        "the broker's version differs: 0.4.0 in exact and unknown in none"
    )
    assert compare(EXACT, [EXACT]).differences == []


@pytest.mark.parametrize(
    ("per_second", "is_told"), [(80, False), (79, True), (120, False), (121, True), (None, False)]
)
def test_loads_differ_by_more_than_a_fifth(per_second: float | None, is_told: bool) -> None:
    baseline = of_runs(EXACT, deliveries=100, per_second=100.0)
    candidate = of_runs(EXACT, deliveries=100, per_second=per_second)
    assert bool(compare(candidate, [baseline]).differences) == is_told


# Rules.


@pytest.mark.parametrize(
    ("text", "times", "more", "plainest"),
    [
        ("p99 > 1.5x", Fraction(3, 2), 0, "p99 > 1.5x"),
        ("level=*  p99>+10ms", 1, 10_000, "level=* p99 > +10ms"),
        ("total max < -1.5s", 1, -1_500_000, "max < -1.5s"),
        ("on_time < -0.1%", 1, Fraction(-1, 1000), "on_time < -0.1%"),
        ("on_time(1s) > +0.1%", 1, Fraction(1, 1000), "on_time(1s) > +0.1%"),
        ("lost > +3", 1, 3, "lost > +3"),
        ("early > +0", 1, 0, "early > +0"),
        ("p50 > +10%", Fraction(11, 10), 0, "p50 > +10%"),
        ("delivered < -5%", Fraction(19, 20), 0, "delivered < -5%"),
    ],
)
def test_a_rule_is_read(text: str, times: int | Fraction, more: int | Fraction, plainest: str) -> None:
    rule = parse_rule(text)
    assert (rule.times, rule.more, rule.text) == (times, more, plainest)
    assert parse_rule(rule.text) == rule


_ABSOLUTE = "an absolute limit is a threshold, not a rule"


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        (
            "p99 > 50ms",
            7,
            "'50ms' is not a limit relative to the baseline; p99 takes 1.5x, +10ms, -10ms or +10%",
        ),
        (
            "p99 > +50",
            7,
            "'+50' is not a limit relative to the baseline; p99 takes 1.5x, +10ms, -10ms or +10%",
        ),
        ("p99 > -x", 7, "'-x' is not a limit relative to the baseline; p99 takes 1.5x, +10ms, -10ms or +10%"),
        (
            "p99 > +1.5x",
            7,
            "'+1.5x' is not a limit relative to the baseline; p99 takes 1.5x, +10ms, -10ms or +10%",
        ),
        ("lost > 0", 8, "'0' is not a limit relative to the baseline; lost takes 1.5x, +3, -3 or +10%"),
        ("lost > +1ms", 8, "'+1ms' is not a limit relative to the baseline; lost takes 1.5x, +3, -3 or +10%"),
        (
            "on_time < +5ms",
            11,
            "'+5ms' is not a limit relative to the baseline; on_time takes 1.5x, or points such as -0.1%",
        ),
        (
            "on_time < -5",
            11,
            "'-5' is not a limit relative to the baseline; on_time takes 1.5x, or points such as -0.1%",
        ),
    ],
)
def test_absolute_limit_is_refused(text: str, column: int, problem: str) -> None:
    with pytest.raises(InvalidThresholdError) as caught:
        parse_rule(text)
    assert str(caught.value) == f"{text!r}, column {column}: {problem}; {_ABSOLUTE}"


def test_rule_operands_are_parsed_like_thresholds() -> None:
    with pytest.raises(InvalidThresholdError, match="'lots'"):
        parse_rule("lots > +1")


@pytest.mark.parametrize(
    ("text", "value", "passes"),
    [
        ("max > 1.5x", 150, True),
        ("max > 1.5x", 151, False),
        ("max >= 1.5x", 150, False),
        ("max < 0.5x", 50, True),
        ("max < 0.5x", 49, False),
        ("max > +10us", 110, True),
        ("max > +10us", 111, False),
        ("max < -10us", 90, True),
        ("max < -10us", 89, False),
        ("max > +10%", 110, True),
        ("max > +10%", 111, False),
        ("max == 1x", 100, False),
        ("max != +0", 100, True),
        ("max != +0", 101, False),
    ],
)
def test_a_rule_fails_the_report_when_it_holds(text: str, value: int, passes: bool) -> None:
    baseline, candidate = (changed(EXACT, "total", "total", max_us=max_us) for max_us in (100, value))
    assert judged(text, candidate, baseline).passed == passes


def test_judgement_shows_the_change_in_the_form_of_the_rule() -> None:
    baseline = changed(EXACT, "total", "total", max_us=1_000, on_time=9_990, measured=10_000, early=4)
    candidate = changed(EXACT, "total", "total", max_us=1_234, on_time=9_976, measured=10_000, early=3)
    found = {
        text: judged(text, candidate, baseline)
        for text in (
            "max > 1.2x",
            "max > +10us",
            "max > +10%",
            "max < -10%",
            "on_time < -0.1%",
            "early > +0",
            "early < 0.5x",
        )
    }
    assert {text: (one.passed, one.actual) for text, one in found.items()} == {
        "max > 1.2x": (False, "1.23x"),
        "max > +10us": (False, "+234µs"),
        "max > +10%": (False, "+23.4%"),
        "max < -10%": (True, "+23.4%"),
        "on_time < -0.1%": (False, "-0.14%"),
        "early > +0": (True, "-1"),
        "early < 0.5x": (True, "0.75x"),
    }
    assert found["max > 1.2x"].reason == "total: max is 1.234ms (baseline 1ms)"
    assert found["on_time < -0.1%"].reason == "total: on_time is 99.76% (baseline 99.9%)"


def test_any_growth_from_zero_exceeds_every_multiple() -> None:
    nothing, some = (changed(EXACT, "total", "total", early=early) for early in (0, 1))
    assert judged("early > 1.5x", nothing, nothing).passed
    assert judged("early > 1.5x", nothing, nothing).actual == "+0"
    assert not judged("early > 1.5x", some, nothing).passed
    assert judged("early > +10%", some, nothing).actual == "+1"


def test_values_below_0_have_no_multiple() -> None:
    early = changed(EXACT, "total", "total", min_us=-10)
    assert judged("min < 2x", early, early) == Judgement(
        text="min < 2x",
        passed=False,
        actual="not measured",
        reason="total: the baseline's min is negative, so no multiple of it is meaningful",
    )
    assert judged("min < -5us", early, early).passed


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("level=13 p50 > 2x", "no measurements of level 13 (9m)"),
        ("level=17 p99 > 2x", "p99 of level 17 (1h) needs more than 76 deliveries"),
        ("topic=a p50 > 2x", "the report has no topic 'a'; its topics are 'orders' and 'payments'"),
        ("p99.95 > 2x", "p99.95 was not computed"),
    ],
)
def test_incomparable_figures_fail(text: str, reason: str) -> None:
    assert judged(text) == Judgement(text=text, passed=False, actual="not measured", reason=reason)


def test_figures_missing_in_the_baseline_fail() -> None:
    without = changed(EXACT, "level", "3", measured=0)
    assert judged("level=3 p50 > 2x", FAITHFUL, without).reason == (
        "in the baseline no measurements of level 3 (10s)"
    )
    assert not judged("level=3 p50 > 2x", FAITHFUL, without).passed


def test_times_of_a_moved_clock_are_not_judged_but_counts_are() -> None:
    for candidate, baseline in ((MOVED, EXACT), (EXACT, MOVED)):
        for text in ("p99 > 100x", "on_time < -100%", "mean > +1h"):
            assert judged(text, candidate, baseline) == Judgement(
                text=text,
                passed=False,
                actual="not measured",
                reason="the clock was moved or not real, so this does not measure speed",
            )
    assert judged("early > +10", MOVED, EXACT).passed
    assert not judged("early > +0", MOVED, EXACT).passed


def test_every_level_is_compared_with_itself() -> None:
    slower = changed(EXACT, "level", "7", max_us=10**9)
    slower = changed(slower, "level", "9", max_us=10**9 + 10**7)
    judgement = judged("level=* max > 1.5x", slower, EXACT)
    before = {row.name: row.max_us or 1 for row in EXACT.lateness if row.dimension == "level"}
    assert not judgement.passed
    assert [part.split(":")[0] for part in judgement.reason.split(" and ")] == [
        "level 7 (3m)",
        "level 9 (5m)",
    ]
    assert before["7"] != before["9"]
    worst = max(("7", 10**9), ("9", 10**9 + 10**7), key=lambda one: one[1] - 1.5 * before[one[0]])
    assert judgement.actual == f"{worst[1] / before[worst[0]]:.0f}x"
    assert judged("level=* max < 0.9x", slower, EXACT).passed
    assert judged("level=* max > 1.5x", EXACT, EXACT).actual == "1.00x"


def test_silent_level_fails_and_new_level_is_noted() -> None:
    without = changed(EXACT, "level", "3", measured=0, sent=0)
    judgement = judged("level=* p50 > 2x", without, EXACT)
    assert not judgement.passed
    assert judgement.reason.endswith("; no measurements of level 3 (10s)")
    judgement = judged("level=* p50 > 2x", EXACT, without)
    assert judgement.passed
    assert judgement.reason.endswith("; level 3 has no deliveries in the baseline")
    more_lost = changed(EXACT, "level", "3", lost=1)
    assert not judged("level=* lost > +0", more_lost, without).passed


def test_levels_without_deliveries_on_either_side_fail() -> None:
    def only(level: str) -> Report:
        rows = [replace(row, measured=row.measured * (row.name == level)) for row in EXACT.lateness]
        return replace(EXACT, lateness=rows)

    none = "no level has deliveries in both reports"
    assert judged("level=* p50 > 2x", only(""), only("")).reason == none
    judgement = judged("level=* p50 > 2x", only("3"), only(""))
    assert judgement.reason == f"{none}; level 3 has no deliveries in the baseline"
    assert not judgement.passed


# Earlier reports.


def test_report_survives_a_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    report = sample_report(comparison=compare(FAITHFUL, [EXACT]))
    path.write_bytes(msgspec.json.encode(report))
    assert load_report(path) == report


def test_a_newer_report_of_the_same_major_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    newer = msgspec.to_builtins(EXACT) | {"schema_version": "1.7", "weather": "fine"}
    path.write_bytes(msgspec.json.encode(newer))
    assert load_report(path) == replace(EXACT, schema_version="1.7")


@pytest.mark.parametrize("version", ["2.0", "10.0", "", "x"])
def test_a_report_of_another_major_version_is_refused(tmp_path: Path, version: str) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(msgspec.json.encode({"schema_version": version, "nothing": "known"}))
    with pytest.raises(ReportUnreadableError) as caught:
        load_report(path)
    assert str(caught.value) == (
        f"{path} is a report of schema version {version!r};"
        " this program reads 1.x: make the report again from its data"
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "Input data was truncated"),
        (
            b'{"schema_version":"\xff"}',
            "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        ),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "Object missing required field `schema_version`"),
        (b'{"schema_version":"1.0"}', "Object missing required field `header`"),
        (b'{"schema_version":1}', "Expected `str`, got `int` - at `$.schema_version`"),
    ],
)
def test_an_invalid_report_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(content)
    with pytest.raises(ReportUnreadableError) as caught:
        load_report(path)
    assert str(caught.value) == f"{path} is not a report.json of a lateness report: {why}"


def test_a_missing_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportUnreadableError, match=r"report\.json .*No such file or directory"):
        load_report(tmp_path / "report.json")
