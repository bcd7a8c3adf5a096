"""Estimates of another clock's lead, from messages with made-up times."""

from random import Random

import pytest

from mocketmq.probe.clock_offset import ClockOffset, Sample


@pytest.mark.parametrize("ahead_us", [0, 137, -5_400_000_123, 86_400_000_000])
def test_true_offset_is_within_the_error(ahead_us: int) -> None:
    draw = Random(ahead_us)
    samples: list[Sample] = []
    found: ClockOffset | None = None
    while len(samples) < 200:
        sent = draw.randrange(10**15, 2 * 10**15)
        there = sent + draw.randrange(0, 20_000)
        answered = there + draw.randrange(0, 20_000)
        samples.append(Sample(sent, answered, (there + ahead_us) // 1_000))
        found = ClockOffset.of(samples)
        assert found
        assert abs(found.ahead_us - ahead_us) <= found.error_us
        assert not found.drifts
        assert found.samples == len(samples)
    assert found
    assert found.error_us < 3_000  # closer than any single sample


def test_a_clock_that_drifts_has_an_error_that_spans_it() -> None:
    samples = [Sample(at, at + 500, (at + at // 100) // 1_000) for at in range(0, 10_000_000, 1_000_000)]
    found = ClockOffset.of(samples)
    assert found
    assert found.drifts
    assert all(abs(found.ahead_us - each.sent_us // 100) <= found.error_us for each in samples)


def test_offset_is_unknown_without_a_message() -> None:
    assert ClockOffset.of([]) is None
