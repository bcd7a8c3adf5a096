"""Thresholds decide whether reports pass."""

from typing import Any

import pytest
from msgspec.structs import replace

from mocketmq_report.document import Header, Judgement, Lateness, Quality, Reconciliation, Report
from mocketmq_report.judge.thresholds import judge, parse
from tests.support.reports import sample_report, simulated

SAMPLE = sample_report()
UNMOVED = simulated("exact", "exact", False, 4)


def judged(text: str, report: Report = UNMOVED) -> Judgement:
    return judge(parse(text), report)


def changed(dimension: str, name: str, **changes: Any) -> Report:
    """Return the report with other figures for one group."""
    lateness = [
        replace(row, **{key: value for key, value in changes.items() if hasattr(row, key)})
        if (row.dimension, row.name) == (dimension, name)
        else row
        for row in UNMOVED.lateness
    ]
    reconciliation = [
        replace(row, **{key: value for key, value in changes.items() if hasattr(row, key)})
        if (row.dimension, row.name) == (dimension, name)
        else row
        for row in UNMOVED.reconciliation
    ]
    return replace(UNMOVED, lateness=lateness, reconciliation=reconciliation)


def lateness(dimension: str, name: str) -> Lateness:
    return next(row for row in UNMOVED.lateness if (row.dimension, row.name) == (dimension, name))


def reconciliation(dimension: str, name: str) -> Reconciliation:
    return next(row for row in UNMOVED.reconciliation if (row.dimension, row.name) == (dimension, name))


@pytest.mark.parametrize(
    ("metric", "scope", "value"),
    [
        ("p99", "level=3", lateness("level", "3").percentiles["p99"]),
        ("p50", "total", lateness("total", "total").percentiles["p50"]),
        ("p90", "topic=orders", lateness("topic", "orders").percentiles["p90"]),
        ("min", "level=2", lateness("level", "2").min_us),
        ("max", "scheme=directories", lateness("scheme", "directories").max_us),
        ("mean", "profile=exact", round(lateness("profile", "exact").mean_us or 0)),
    ],
)
def test_each_operator_compares_to_the_correct_side(metric: str, scope: str, value: int) -> None:
    sides = {"<=": (0, 1), "<": (1,), ">=": (-1, 0), ">": (-1,), "==": (0,), "!=": (-1, 1)}
    for operator, passing in sides.items():
        for difference in (-1, 0, 1):
            judgement = judged(f"{scope} {metric} {operator} {value + difference}us")
            assert judgement.passed == (difference in passing), judgement


def test_the_actual_value_is_written_in_full() -> None:
    row = lateness("run", UNMOVED.header.runs[0].run)
    judgement = judged(f"run={row.name} max <= 1us")
    assert parse(f"max == {judgement.actual}").limit == row.max_us
    assert judgement.reason == f"run {row.name}: max is {judgement.actual}, not <= 1µs"


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("measured", lateness("level", "4").measured),
        ("count", lateness("level", "4").measured),
        ("early", lateness("level", "4").early),
        ("overdue", lateness("level", "4").overdue),
        *(
            (name, getattr(reconciliation("level", "4"), name))
            for name in ("sent", "delivered", "pending", "cancelled", "expired", "lost", "repeats", "forced")
        ),
    ],
)
def test_counts_of_a_group(metric: str, value: int) -> None:
    assert judged(f"level=4 {metric} == {value}").passed
    report = changed("level", "4", **{{"count": "measured"}.get(metric, metric): 77})
    assert judged(f"level=4 {metric} == 77", report).actual == "77"
    assert judged(f"level=4 {metric} == {value}", report).passed == (value == 77)


def test_counts_of_the_data_and_of_disorder() -> None:
    quality = UNMOVED.quality
    values = {
        "read": quality.read,
        "kept": quality.kept,
        "dropped": 3,
        "skewed": 4,
        "impossible": 1,
        "broken": 1,
        "disorder": sum(one.violations for one in UNMOVED.disorder),
        "silent": 1,
    }
    assert values["disorder"]
    assert {name: judged(f"{name} == {value}").actual for name, value in values.items()} == {
        name: str(value) for name, value in values.items()
    }
    assert judged(
        "silent == 1", changed("run", UNMOVED.header.runs[2].run, is_silent=True)
    ).passed  # of levels
    one = next(one for one in UNMOVED.disorder if one.violations)
    assert judged(f"run={one.run} disorder == 1").passed
    of_level = [other.violations for other in UNMOVED.disorder if other.level == one.level]
    assert judged(f"level={one.level} disorder == {sum(of_level)}").passed
    assert judged("level=1 disorder == 0").passed
    timed = replace(one, scheme="directories", level=None, violations=7)
    report = replace(UNMOVED, disorder=[*UNMOVED.disorder, timed])
    assert judged("scheme=directories disorder == 7", report).passed
    assert judged(f"disorder == {values['disorder'] + 7}", report).passed
    assert judged("level=16 silent == 1").passed
    assert judged("level=15 silent == 0").passed


def test_share_is_a_fraction_of_measured_messages() -> None:
    report = changed("total", "total", measured=3_000, on_time=2_997)
    assert judged("on_time >= 99.9%", report).passed
    assert judged("on_time == 99.9%", report).actual == "99.9%"
    one_less = changed("total", "total", measured=3_000_000, on_time=2_996_999)
    assert judged("on_time >= 99.9%", one_less) == Judgement(
        text="on_time >= 99.9%",
        passed=False,
        actual="99.89997%",  # not rounded to 99.9%, which would pass
        reason="total: on_time is 99.89997%, not >= 99.9%",
    )
    assert judged("on_time >= 90%", one_less).actual == "99.9%"


def test_on_time_by_another_measure_is_read_from_its_cutoff() -> None:
    row = lateness("level", "5")
    for cutoff, number in zip(UNMOVED.header.cutoffs_us, row.within, strict=True):
        judgement = judged(f"level=5 on_time({cutoff}us) > 0%")
        assert judgement.actual == f"{100 * number / row.measured:.2f}".rstrip("0").rstrip(".") + "%"
    own = replace(UNMOVED.header, on_time_us=7_000)
    report = replace(changed("level", "5", on_time=1), header=own)
    assert judged("level=5 on_time(7ms) > 0%", report).actual == judged("level=5 on_time > 0%", report).actual
    assert judged("level=5 on_time(8ms) > 0%", report).reason == "on_time(8ms) was not computed"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("level=13 p99 <= 1s", "no measurements of level 13 (9m)"),
        ("level=13 max <= 1s", "no measurements of level 13 (9m)"),
        ("level=13 on_time >= 0%", "no measurements of level 13 (9m)"),
        ("level=17 p99.9 <= 1s", "p99.9 of level 17 (1h) needs more than 76 deliveries"),
        ("p99.95 <= 1s", "p99.95 was not computed"),
        ("on_time(7ms) >= 0%", "on_time(7ms) was not computed"),
        ("topic=ordrs early == 0", "the report has no topic 'ordrs'; its topics are 'orders' and 'payments'"),
        (
            "level=19 early == 0",
            "the report has no level '19'; its levels are '1', '2', '3', '4' and 14 more",
        ),
        (
            "scheme=total early == 0",
            "the report has no scheme 'total'; its schemes are 'levels' and 'directories'",
        ),
    ],
)
def test_thresholds_without_data_fail_with_the_reason(text: str, reason: str) -> None:
    assert judged(text) == Judgement(text=text, passed=False, actual="not measured", reason=reason)


def test_group_without_reconciliation_fails() -> None:
    report = replace(UNMOVED, reconciliation=[])
    assert judged("lost == 0", report).reason == "the report has no data about total"
    assert judged("level=3 lost == 0", report).reason == "the report has no data about level 3 (10s)"
    assert not judged("level=3 silent == 0", report).passed


def test_zero_counts_are_judged() -> None:
    assert judged("level=13 early == 0").passed
    assert judged("level=13 sent == 0").passed


def test_every_level_is_judged_by_the_worst() -> None:
    p50 = {row.name: row.percentiles["p50"] or 0 for row in UNMOVED.lateness if row.dimension == "level"}
    worst = max(p50, key=lambda name: p50[name])
    assert judged("level=* p50 <= 1s") == Judgement(
        text="level=* p50 <= 1s",
        passed=True,
        actual=f"{p50[worst] / 1000}ms",
        reason=f"level {worst} (30s): p50 is {p50[worst] / 1000}ms",
    )
    limit = sorted(p50.values())[-2]
    judgement = judged(f"level=* p50 < {limit}us")
    assert not judgement.passed
    assert judgement.actual == f"{p50[worst] / 1000}ms"
    assert judgement.reason.count("p50 is") == 2
    assert judged(f"level=* p50 <= {limit}us").reason.count("p50 is") == 1
    least = min(value for value in p50.values() if value)  # skips empty levels
    assert judged(f"level=* p50 >= {least}us").actual == f"{least}µs"
    assert not judged(f"level=* p50 > {least}us").passed


def test_a_failed_equality_shows_the_furthest_value() -> None:
    report = changed("level", "7", early=5)
    assert judged("level=* early == 0", report).actual == "5"
    assert judged("level=* early == 5", report).actual != "5"
    assert judged("level=* early != 5", report).actual == "5"


def test_a_level_without_its_percentile_fails_the_threshold_with_a_reason() -> None:
    judgement = judged("level=* p99 <= 1us")
    assert not judgement.passed
    assert judgement.actual != "not measured"
    assert judgement.reason.endswith("; p99 of level 17 (1h) needs more than 76 deliveries")
    assert "level 1 (1s): p99 is" in judgement.reason
    judgement = judged("level=* p99 <= 1h")
    assert not judgement.passed
    assert "not <=" not in judgement.reason


def test_level_with_sends_only_is_reconciled() -> None:
    report = changed("level", "13", sent=2, lost=2)
    judgement = judged("level=* lost == 0", report)
    assert (judgement.passed, judgement.actual) == (False, "2")
    assert judged("level=* early == 0", report) == judged("level=* early == 0")


def test_thresholds_without_any_delivering_level_fail() -> None:
    report = replace(
        UNMOVED,
        lateness=[replace(row, measured=0) for row in UNMOVED.lateness],
        reconciliation=[replace(row, sent=0) for row in UNMOVED.reconciliation],
    )
    for text in ("level=* p99 <= 1s", "level=* early == 0", "level=* lost == 0"):
        assert judged(text, report).reason == "no level has deliveries"
        assert not judged(text, report).passed


def test_times_under_a_moved_clock_carry_a_remark() -> None:
    remark = "; the clock was moved or not real, so this does not measure speed"
    for text in ("p50 <= 1s", "on_time >= 0%", "p50 <= 1us"):
        assert judged(text, SAMPLE).reason.endswith(remark)
    for text in ("early == 0", "p99.95 <= 1s"):
        assert remark not in judged(text, SAMPLE).reason
    assert remark not in judged("p50 <= 1s").reason


def test_bins_fail_thresholds_within_their_error() -> None:
    header: Header = replace(UNMOVED.header, method="bins", error=0.001)
    report = replace(changed("total", "total", percentiles={"p50": 100_000}, max_us=100_000), header=header)
    remark = "bins, which may be wrong by 0.1%, cannot decide so close to the limit"
    assert judged("p50 <= 99901us", report).reason.endswith(remark)
    assert judged("p50 <= 99900us", report).reason == "total: p50 is 100ms, not <= 99.9ms"
    assert judged("max <= 99999us", report).reason == "total: max is 100ms, not <= 99.999ms"
    exact = replace(report, header=UNMOVED.header)
    assert judged("p50 <= 100ms", exact).reason == "total: p50 is 100ms"


def test_empty_report_fails_every_threshold() -> None:
    quality = Quality(read=0, kept=0, dropped=[], skewed=0, disorder=[], broken=[])
    report = replace(UNMOVED, quality=quality, lateness=[], reconciliation=[], disorder=[])
    for text in (
        "p99 <= 1s",
        "on_time >= 0%",
        "early == 0",
        "lost == 0",
        "level=1 p50 < 1s",
        "topic=a early == 0",
    ):
        assert not judged(text, report).passed
    assert judged("topic=a early == 0", report).reason == "the report has no topic 'a'; its topics are none"
    assert judged("dropped == 0", report).passed
