"""The moments that `mocketmq record` takes."""

import sys
import time
from collections.abc import Iterator
from datetime import datetime

import click
import pytest

from mocketmq.cli import record

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a process cannot change its time zone there")


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the time zone of the process: clocks change on 2026-03-29 and 2026-10-25, at 1:00 UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("now", "text", "moment"),
    [
        ("2026-01-10T12:00Z", "11:59", "2026-01-10T10:59Z"),
        ("2026-01-10T12:00Z", "13:00", "2026-01-10T12:00Z"),
        ("2026-01-10T12:00Z", "13:00:01", "2026-01-09T12:00:01Z"),
        ("2026-03-29T10:00Z", "15:00", "2026-03-28T14:00Z"),
        ("2026-03-29T10:00Z", "01:30", "2026-03-29T00:30Z"),
        ("2026-10-25T10:00Z", "15:00", "2026-10-24T13:00Z"),
        ("2026-10-25T10:00Z", "02:30", "2026-10-25T01:30Z"),
        ("2026-10-25T01:10Z", "02:30", "2026-10-25T00:30Z"),
    ],
)
def test_a_time_of_day_is_the_last_one_even_if_clocks_changed(
    now: str, text: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_us = round(datetime.fromisoformat(now).timestamp() * 1_000_000)
    monkeypatch.setattr(record, "wall_us", lambda: now_us)
    found_ms = record.moment_ms(text, "")
    assert found_ms == round(datetime.fromisoformat(moment).timestamp() * 1_000)


def test_a_time_that_no_day_has_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="'25:00'; allowed: a time"):
        record.moment_ms("25:00", "a time")
