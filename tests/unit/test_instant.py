"""Instants as text are in UTC, with the date if they are on another day."""

import pytest

from mocketmq.instant import format_instant, format_time

NOON_US = 1_906_891_200_000_000  # 2030-06-05T12:00:00Z
HOUR_US = 3_600_000_000


@pytest.mark.parametrize(
    ("ahead_us", "text"),
    [
        (0, "12:00:00"),
        (12 * HOUR_US - 1, "23:59:59"),
        (12 * HOUR_US, "2030-06-06 00:00:00"),
        (24 * HOUR_US, "2030-06-06 12:00:00"),
        (-12 * HOUR_US - 1, "2030-06-04 23:59:59"),
    ],
)
def test_an_instant_of_another_day_has_its_date(ahead_us: int, text: str) -> None:
    assert format_time(NOON_US + ahead_us, NOON_US) == text


def test_an_instant_is_formatted_as_iso_8601_in_utc() -> None:
    assert format_instant(NOON_US + 1_999) == "2030-06-05T12:00:00.001Z"
    assert format_instant(1 << 60) == f"{(1 << 60) // 1_000} ms"


def test_an_instant_after_the_year_9999_is_formatted_in_milliseconds() -> None:
    assert format_time(1 << 60, NOON_US) == f"{(1 << 60) // 1_000} ms"
