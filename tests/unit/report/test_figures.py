import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq_report import figures


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (None, "–"),
        (0, "0"),
        (0.4, "0.4µs"),
        (0.004, "0"),
        (1, "1µs"),
        (999, "999µs"),
        (999.6, "1ms"),
        (1_000, "1ms"),
        (1_234, "1.23ms"),
        (9_996, "10ms"),
        (12_345, "12.3ms"),
        (123_456, "123ms"),
        (999_499, "999ms"),
        (999_500, "1s"),
        (59_949_999, "59.9s"),
        (59_950_000, "1m"),
        (61_400_000, "1m1s"),
        (457_420_828, "7m37s"),
        (5_999_000_000, "1h39m59s"),
        (6_000_000_000, "1h40m"),
        (86_430_000_000, "1d"),
        (-3_000, "-3ms"),
        (-90_000_000, "-1m30s"),
    ],
)
def test_durations_have_three_digits_and_a_unit(us: float | None, text: str) -> None:
    assert figures.duration(us) == text


_UNITS_US = {"µs": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


@given(st.integers(1, 10**12))
def test_a_duration_is_never_off_by_more_than_its_last_digit(us: int) -> None:
    text = figures.duration(us)
    parts = re.findall(r"([0-9.]+)(µs|ms|[smhd])", text)
    assert "".join(number + unit for number, unit in parts) == text
    shown_us = sum(float(number) * _UNITS_US[unit] for number, unit in parts)
    assert abs(shown_us - us) <= us * 0.0085  # at most a second in a minute


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (None, "–"),
        (0, "0%"),
        (1, "100%"),
        (0.5, "50%"),
        (0.98765, "98.77%"),  # as many digits as are meaningful
        (0.9999, "99.99%"),
        (0.99996, "99.996%"),
        (0.9999999, "99.99999%"),
        (0.9999999999, ">99.999999%"),
        (0.00001, "0.001%"),
        (1e-12, "<0.000001%"),
    ],
)
def test_shares_near_0_and_100_percent_are_not_rounded_to_them(part: float | None, text: str) -> None:
    assert figures.share(part) == text


@pytest.mark.parametrize(
    ("number", "count", "ratio", "rate"),
    [
        (None, "–", "–", "–"),
        (0, "0", "0.00x", "0/s"),
        (0.98, "1", "0.98x", "0.98/s"),
        (1.5, "2", "1.50x", "1.5/s"),
        (9.994, "10", "9.99x", "9.99/s"),
        (9.996, "10", "10x", "10/s"),
        (24.64, "25", "24.6x", "24.6/s"),
        (246.4, "246", "246x", "246/s"),
        (999.6, "1,000", "1,000x", "1,000/s"),
        (1234567, "1,234,567", "1,234,567x", "1,234,567/s"),
    ],
)
def test_counts_ratios_and_rates(number: float | None, count: str, ratio: str, rate: str) -> None:
    assert figures.count(number) == count
    assert figures.ratio(number) == ratio
    assert figures.rate(number) == rate


def test_instants_are_utc_and_truncated() -> None:
    assert figures.instant(1_795_212_000_123_999) == "2026-11-20T22:00:00.123Z"
    assert figures.instant(-1) == "1969-12-31T23:59:59.999Z"
    assert figures.instant(10**18) == "1000000000000000 ms"
    assert figures.instant(None) == "–"


@pytest.mark.parametrize(
    ("metric", "value", "delta", "text", "change"),
    [
        ("p99.9", 1_500, -1_500, "1.5ms", "-1.5ms"),
        ("p0.5", 7, None, "7µs", "–"),
        ("mean", 1_500.5, 20, "1.5ms", "+20µs"),
        ("max", None, None, "–", "–"),
        ("on_time_share", 0.999, -0.0123, "99.9%", "-1.23 points"),
        ("lost", 12_345, 1_000, "12,345", "+1,000"),
        ("pending", 3, 0, "3", "±0"),
    ],
)
def test_metric_decides_the_unit(
    metric: str, value: float | None, delta: float | None, text: str, change: str
) -> None:
    assert figures.figure(metric, value) == text
    assert figures.change(metric, delta) == change


def test_control_characters_in_group_names_are_escaped() -> None:
    assert figures.group("total", "anything") == "total"
    assert figures.group("level", "3", "10s") == "level 3 (10s)"
    assert figures.group("topic", "a\x1b[2J\nb") == r"topic a\x1b[2J\nb"


@pytest.mark.parametrize(
    ("things", "text"),
    [
        ("", ""),
        ("a", "a"),
        ("ab", "a and b"),
        ("abcde", "a, b, c, d and e"),
        ("abcdef", "a, b, c, d and 2 more"),
    ],
)
def test_lists_are_cut(things: str, text: str) -> None:
    assert figures.listed(things) == text
