"""Output of instants."""

import pytest

from mocketmq.cli.output import distance, instant


@pytest.mark.parametrize(
    ("ms", "now_ms", "shown"),
    [
        (None, None, "–"),
        (None, 1, "–"),
        (1_700_000_000_007, None, "2023-11-14T22:13:20.007Z"),
        (10_000, 0, "1970-01-01T00:00:10.000Z (in 10s)"),
        (0, 5_400_000, "1970-01-01T00:00:00.000Z (1h30m ago)"),
        (1, 1, "1970-01-01T00:00:00.001Z (now)"),
        (253_402_300_799_999 + 7_200_000, None, "253402307999999 ms"),
    ],
)
def test_instants(ms: int | None, now_ms: int | None, shown: str) -> None:
    assert instant(ms, now_ms) == shown


def test_distances() -> None:
    assert [distance(ms, 7) for ms in (None, 6, 7, 8)] == ["–", "1ms ago", "now", "in 1ms"]
