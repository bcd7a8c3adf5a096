"""Durations are exact in both directions, and other texts are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.duration import format_duration, parse_duration_us
from mocketmq.errors import InvalidArgumentError

CENTURY_US = 36_500 * 86_400_000_000


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("0", 0),
        ("0s", 0),
        ("1us", 1),
        ("1µs", 1),  # the micro sign
        ("1μs", 1),  # the Greek letter mu
        ("200ms", 200_000),
        ("0.1s", 100_000),
        ("1.5s", 1_500_000),
        ("1.0000000s", 1_000_000),
        ("10s", 10_000_000),
        ("5m", 300_000_000),
        ("2h", 7_200_000_000),
        ("1d", 86_400_000_000),
        ("1h30m", 5_400_000_000),
        ("1d2h3m4s5ms6us", 93_784_005_006),
        ("36500d", CENTURY_US),
    ],
)
def test_text_is_read_to_the_microsecond(text: str, us: int) -> None:
    assert parse_duration_us(text) == us


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "s",
        "-1s",
        "+1s",
        "1 s",
        " 1s",
        "1s\n",
        "1S",
        "1.s",
        ".5s",
        "1e3s",
        "1.5us",
        "0.0000001s",
        "1w",
        "1h30",
        "٣s",
        "36500d1us",
        "9" * 5000 + "d",
    ],
)
def test_other_text_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^wait is .*36500d") as refused:
        parse_duration_us(text, "wait")
    assert refused.value.field == "wait"
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0"),
        (7, "7µs"),
        (200_000, "200ms"),
        (200_500, "200.5ms"),
        (1_000_001, "1.000001s"),
        (10_000_000, "10s"),
        (60_200_000, "1m200ms"),
        (90_000_000, "1m30s"),
        (5_400_000_000, "1h30m"),
        (259_200_000_000, "3d"),
        (-200_000, "-200ms"),
    ],
)
def test_microseconds_are_written_briefly(us: int, text: str) -> None:
    assert format_duration(us) == text


@given(st.integers(0, CENTURY_US))
def test_durations_survive_a_round_trip(us: int) -> None:
    assert parse_duration_us(format_duration(us)) == us
