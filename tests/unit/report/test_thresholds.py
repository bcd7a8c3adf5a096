from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq_report.judge.compare import parse_rule
from mocketmq_report.judge.condition import OPERATORS, InvalidThresholdError
from mocketmq_report.judge.metric import METRICS, Metric, Scope
from mocketmq_report.judge.thresholds import RequiredFigures, Threshold, parse, parse_file, required_figures


@pytest.mark.parametrize(
    ("text", "scope", "metric", "operator", "limit", "plainest"),
    [
        ("level=3 p99 <= 50ms", ("level", "3"), ("p99",), "<=", 50_000, "level=3 p99 <= 50ms"),
        ("early==0", ("total", "total"), ("early",), "==", 0, "early == 0"),
        ("  total   max<1h30m ", ("total", "total"), ("max",), "<", 5_400_000_000, "max < 1h30m"),
        ("on_time>=99.90%", ("total", "total"), ("on_time",), ">=", Fraction(999, 1000), "on_time >= 99.9%"),
        (
            "total on_time( 0.1s ) > 99.9%",
            ("total", "total"),
            ("on_time", 100_000),
            ">",
            Fraction(999, 1000),
            "on_time(100ms) > 99.9%",
        ),
        ("level=* p99.90 != 0", ("level", "*"), ("p99.9",), "!=", 0, "level=* p99.9 != 0"),
        ("p50.0 < 1us", ("total", "total"), ("p50",), "<", 1, "p50 < 1µs"),
        ("p0.5 < 1us", ("total", "total"), ("p0.5",), "<", 1, "p0.5 < 1µs"),
        ("min >= -5ms", ("total", "total"), ("min",), ">=", -5_000, "min >= -5ms"),
        ("topic=%RETRY%g|1 count > 7", ("topic", "%RETRY%g|1"), ("measured",), ">", 7, None),
        (r'topic="a \"b\" \\" mean < 1s', ("topic", 'a "b" \\'), ("mean",), "<", 1_000_000, None),
        (
            "run=20261120T220000.000000Z lost == 0",
            ("run", "20261120T220000.000000Z"),
            ("lost",),
            "==",
            0,
            None,
        ),
        ("on_time == 100%", ("total", "total"), ("on_time",), "==", 1, "on_time == 100%"),
        ("level=1000 early == 0", ("level", "1000"), ("early",), "==", 0, "level=1000 early == 0"),
        ("on_time > 0.000000001%", ("total", "total"), ("on_time",), ">", Fraction(1, 10**11), None),
    ],
)
def test_a_threshold_is_read(
    text: str,
    scope: tuple[Any, str],
    metric: tuple[Any, ...],
    operator: str,
    limit: int | Fraction,
    plainest: str | None,
) -> None:
    threshold = parse(text)
    assert threshold == Threshold(Scope(*scope), Metric(*metric), operator, Fraction(limit))
    if plainest:
        assert str(threshold) == plainest
    assert parse(str(threshold)) == threshold


_LIMITS = {
    "duration": st.integers(-(10**12), 10**12).map(Fraction),
    "share": st.integers(0, 10**11).map(lambda parts: Fraction(parts, 10**11)),
    "count": st.integers(0, 10**15 - 1).map(Fraction),
}
_NAMES = st.text(min_size=1).filter(lambda name: name != "*")
_PERCENTILES = (
    st.tuples(st.integers(0, 99), st.integers(0, 999_999))
    .filter(any)
    .map(
        lambda parts: (
            Metric(f"p{parts[0]}.{parts[1]:06}".rstrip("0").rstrip("."))
            if parts[1]
            else Metric(f"p{parts[0]}")
        )
    )
)


@st.composite
def _thresholds(draw: st.DrawFn) -> Threshold:
    metric = draw(
        _PERCENTILES
        | st.sampled_from(sorted(METRICS)).map(Metric)
        | st.integers(0, 10**12).map(lambda cutoff_us: Metric("on_time", cutoff_us))
    )
    dimension = draw(st.sampled_from(metric.dimensions))
    name = "total"
    if dimension == "level":
        name = draw(st.just("*") | st.integers(1, 1_000).map(str))
    elif dimension != "total":
        name = draw(_NAMES)
    operator = draw(st.sampled_from(sorted(OPERATORS)))
    return Threshold(Scope(dimension, name), metric, operator, draw(_LIMITS[metric.kind]))


@given(_thresholds())
def test_thresholds_survive_a_round_trip(threshold: Threshold) -> None:
    assert parse(str(threshold)) == threshold


@given(st.text() | st.text(alphabet='level=topic"*\\ p9.<>!(%)0', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (parse, parse_rule):
        try:
            read(text)
        except InvalidThresholdError as error:
            assert "column" in str(error)


_METRICS = (
    "allowed: percentiles such as p99.9, min, mean, max, on_time, measured, early, overdue, sent, delivered,"
    " pending, cancelled, expired, lost, repeats, forced, silent, disorder, read, kept, dropped, skewed,"
    " impossible, broken, count, on_time(100ms)"
)
_TIME = "which accepts a duration such as 50ms, 1.5s or 1h30m"
_COUNT = "which accepts a whole number such as 0, without a unit"
_SHARE = "which accepts a share from 0% to 100%, such as 99.9%"
_OPERATORS = "allowed: <= < >= > == !="
_PERCENTILE = (
    "is not a percentile; allowed: above 0 and below 100, such as p50 or p99.95, and min and max; no more"
    " than six decimals"
)
_SCOPES = "allowed: total, level=, scheme=, profile=, topic=, broker=, run="


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("", 1, f"the metric is missing; {_METRICS}"),
        ("level=3 ", 9, f"the metric is missing; {_METRICS}"),
        ("level=3 <= 5ms", 9, f"the metric is missing; {_METRICS}"),
        ("p99", 4, f"an operator is missing after p99; {_OPERATORS}"),
        ("p99 50ms", 5, f"an operator is missing after p99; {_OPERATORS}"),
        ("on_time( <= 5%", 8, f"an operator is missing after on_time; {_OPERATORS}"),
        ("p99 <= ", 8, "the limit is missing after <="),
        ("p99 =< 5ms", 5, f"=< is not an operator (did you mean <=?); {_OPERATORS}"),
        ("p99 = 5ms", 5, f"= is not an operator (did you mean ==?); {_OPERATORS}"),
        ("p99 ≥ 5ms", 5, f"≥ is not an operator (did you mean >=?); {_OPERATORS}"),
        ("p99 ~ 5ms", 5, f"~ is not an operator; {_OPERATORS}"),
        ("p99=5ms", 1, "= is not an operator; did you mean p99 == 5ms?"),
        ("early=5", 1, "= is not an operator; did you mean early == 5?"),
        ("p99 <= 50", 8, f"'50' is not a limit of p99, {_TIME} (did you mean 50ms?)"),
        ("p99 <= 50%", 8, f"'50%' is not a limit of p99, {_TIME}"),
        ("p99 <= 5 ms", 8, f"'5 ms' is not a limit of p99, {_TIME}"),
        ("max <= --5ms", 8, f"'--5ms' is not a limit of max, {_TIME}"),
        ("max <= 5ms or so", 8, f"'5ms or so' is not a limit of max, {_TIME}"),
        ("on_time >= 99.9", 12, f"'99.9' is not a limit of on_time, {_SHARE} (did you mean 99.9%?)"),
        ("on_time >= 100.1%", 12, f"'100.1%' is not a limit of on_time, {_SHARE}"),
        ("on_time(1s) >= 5ms", 16, f"'5ms' is not a limit of on_time(1s), {_SHARE}"),
        ("lost == 0ms", 9, f"'0ms' is not a limit of lost, {_COUNT}"),
        ("lost == -1", 9, f"'-1' is not a limit of lost, {_COUNT}"),
        ("lost == 1.5", 9, f"'1.5' is not a limit of lost, {_COUNT}"),
        ("lost == ٣", 9, f"'٣' is not a limit of lost, {_COUNT}"),
        ("p100 <= 1s", 1, f"p100 {_PERCENTILE}"),
        ("p0 <= 1s", 1, f"p0 {_PERCENTILE}"),
        ("p0.0 <= 1s", 1, f"p0.0 {_PERCENTILE}"),
        ("p050 <= 1s", 1, f"p050 {_PERCENTILE}"),
        ("p99.1234567 <= 1s", 1, f"p99.1234567 {_PERCENTILE}"),
        ("P99 <= 1s", 1, f"there is no metric 'P99' (did you mean p99?); {_METRICS}"),
        ("on-time >= 9%", 1, f"there is no metric 'on-time' (did you mean on_time?); {_METRICS}"),
        ("level=3 lots == 0", 9, f"there is no metric 'lots' (did you mean lost?); {_METRICS}"),
        ("quux == 0", 1, f"there is no metric 'quux'; {_METRICS}"),
        (
            "max(5ms) < 1s",
            1,
            "max does not accept a value in parentheses; only on_time does, as in on_time(100ms)",
        ),
        (
            "on_time(5) > 9%",
            1,
            "on_time's duration is '5'; allowed: a duration such as 200ms, 1.5s, 10s, 1h30m or 2d, from 0 to"
            " 36500d in whole microseconds",
        ),
        ("level=0 p99 < 1s", 1, "level=0 is not a level; allowed: 1 to 1000, or *"),
        ("level=1001 p99 < 1s", 1, "level=1001 is not a level; allowed: 1 to 1000, or *"),
        ("level=03 p99 < 1s", 1, "level=03 is not a level; allowed: 1 to 1000, or *"),
        ("level= p99 < 1s", 1, "level= is not a level; allowed: 1 to 1000, or *"),
        (
            "level = 3 p99 < 1s",
            1,
            'level is a scope: write level=name before the metric, or level="a name" if it has spaces',
        ),
        (
            'topic="a b p99 < 1s',
            1,
            'topic is a scope: write topic=name before the metric, or topic="a name" if it has spaces',
        ),
        ("topic= p99 < 1s", 1, "a name is missing after topic=; only levels can be *"),
        ("topic=* p99 < 1s", 1, "a name is missing after topic=; only levels can be *"),
        ("topc=a p99 < 1s", 1, f"there is no scope 'topc' (did you mean topic?); {_SCOPES}"),
        ("total=a p99 < 1s", 1, f"there is no scope 'total'; {_SCOPES}"),
        ("level=3 total p99 < 1s", 9, f"there is no metric 'total'; {_METRICS}"),
        (
            "topic=a lost == 0",
            9,
            "lost is not counted by topic, only in total, by level, by scheme, by run",
        ),
        (
            "topic=a disorder == 0",
            9,
            "disorder is not counted by topic, only in total, by level, by scheme, by run",
        ),
        ("level=1 dropped == 0", 9, "dropped is not counted by level, only in total"),
    ],
)
def test_a_syntax_error_names_the_place(text: str, column: int, problem: str) -> None:
    with pytest.raises(InvalidThresholdError) as caught:
        parse(text)
    assert str(caught.value) == f"{text!r}, column {column}: {problem}"


def test_file_has_one_threshold_per_line(tmp_path: Path) -> None:
    path = tmp_path / "nightly"
    path.write_text(
        "\ufeff# what must hold\n\n  early == 0  # never\n\ttopic=a#b max < 1s#\n".replace("1s#", "1s")
        + 'topic="a # b" max < 1s # c\n#lost == 0\n'
    )
    assert [str(threshold) for threshold in parse_file(path)] == [
        "early == 0",
        "topic=a#b max < 1s",
        'topic="a # b" max < 1s',
    ]


def test_an_error_in_a_file_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "nightly"
    path.write_text("early == 0\n\nlost == 0%\n")
    with pytest.raises(InvalidThresholdError) as caught:
        parse_file(path)
    assert (
        str(caught.value) == f"{path}, line 3: 'lost == 0%', column 9: '0%' is not a limit of lost, {_COUNT}"
    )


@pytest.mark.parametrize("content", [b"", b"\n # nothing\n"])
def test_file_without_thresholds_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "nightly"
    path.write_bytes(content)
    with pytest.raises(InvalidThresholdError, match="early == 0"):
        parse_file(path)


def test_binary_threshold_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nightly"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidThresholdError, match=str(path)):
        parse_file(path)
    with pytest.raises(InvalidThresholdError, match="No such file"):
        parse_file(tmp_path / "nowhere")


def test_required_figures_are_derived_from_the_thresholds() -> None:
    asked = [
        parse(text) for text in ("p99.95 < 1s", "level=2 p5 < 1s", "p99.950 < 2s", "early == 0", "max < 1s")
    ]
    shares = [parse(text) for text in ("on_time(250ms) > 9%", "level=* on_time(7ms) > 9%", "on_time > 9%")]
    rules = [parse_rule("p99.99 > 1.5x")]
    assert required_figures([*asked, *shares, *rules]) == RequiredFigures(
        (5.0, 99.95, 99.99), (7_000, 250_000)
    )
    assert required_figures([]) == RequiredFigures((), ())
