import pytest
from msgspec.structs import replace

from mocketmq_report.document import Judgement
from mocketmq_report.report import headline
from tests.support.reports import sample_comparison, sample_report, simulated

EXACT = simulated("exact", "exact", False, 4)
PASSED = Judgement(text="early == 0", passed=True, actual="0", reason="")
FAILED = replace(PASSED, passed=False)


@pytest.mark.parametrize(
    ("thresholds", "rules", "verdict"),
    [
        ([], [], "not judged: there are no thresholds"),
        ([PASSED], [], "passed 1 threshold"),
        ([PASSED] * 2, [PASSED], "passed 2 thresholds and 1 rule"),
        ([], [PASSED] * 2, "passed 2 rules"),
        ([FAILED], [], "failed 1 of 1 threshold"),
        ([FAILED, PASSED], [PASSED], "failed 1 of 2 thresholds"),
        ([FAILED, PASSED], [FAILED] * 2, "failed 1 of 2 thresholds and 2 of 2 rules"),
        ([PASSED], [FAILED], "failed 1 of 1 rule"),
    ],
)
def test_the_verdict_counts(thresholds: list[Judgement], rules: list[Judgement], verdict: str) -> None:
    passed = all(one.passed for one in [*thresholds, *rules])
    comparison = replace(sample_comparison(), judgements=rules)
    report = replace(EXACT, judgements=thresholds, comparison=comparison, passed=passed)
    assert headline.verdict(report) == verdict
    if not rules:
        assert headline.verdict(replace(report, comparison=None)) == verdict


def test_a_failed_report_is_shown_as_failed_even_without_a_reason() -> None:
    assert headline.verdict(replace(EXACT, passed=False)) == "failed"


def test_headline_has_subject_place_and_clock() -> None:
    assert headline.measured(sample_report().header) == (
        "broker 0.4.0 on runner-7, profile exact, clock real and moved once, durability full,"
        " 2,546 deliveries in 3 runs at 0.36/s"
    )
    first = EXACT.header.runs[0]
    other = replace(first, profile="rocketmq4\x1b", clock="x10", moves=3, per_second=None, deliveries=1)
    assert headline.measured(
        replace(EXACT.header, runs=[replace(first, deliveries=2, per_second=0.5), other])
    ) == (
        "broker 0.4.0 on runner-7, profile exact and rocketmq4\\x1b, clock real and x10 and moved 3 times,"
        " durability full, 3 deliveries in 2 runs at 0.5/s"
    )
    assert headline.measured(replace(EXACT.header, runs=[])) == (
        "broker unknown on unknown, profile unknown, clock unknown, durability unknown,"
        " 0 deliveries in 0 runs"
    )
    assert headline.measured(replace(EXACT.header, runs=[other])).endswith("1 delivery in 1 run")


def test_headline_names_the_method() -> None:
    made = "made 2026-11-21T00:01:30.000Z by mocketmq 0.4.0, Spark 4.3.0"
    assert headline.computed(EXACT.header) == f"on time: up to 100ms late; percentiles are exact; {made}"
    binned = replace(EXACT.header, method="bins", error=0.001, on_time_us=1_500_000)
    assert (
        headline.computed(binned)
        == f"on time: up to 1.5s late; percentiles are from bins, within 0.1%; {made}"
    )


def test_load_covers_all_runs() -> None:
    run = EXACT.header.runs[0]
    runs = [
        replace(run, deliveries=100, per_second=10.0),  # 10 s
        replace(run, deliveries=100, per_second=2.5),  # 40 s
        replace(run, deliveries=1, per_second=None),
    ]
    assert replace(EXACT.header, runs=runs).load == 4.0
    assert replace(EXACT.header, runs=runs[2:]).load is None
