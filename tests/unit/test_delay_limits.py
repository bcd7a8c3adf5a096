"""Delay limits of other systems, at each boundary and beyond, for single delays and for arrays."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.delay_limits import DELAY_LIMITS, DelayLimits, WaitingLine
from mocketmq.settings import DelayLimitsName

DAY = 86_400 * US_PER_S
NOW = 1_800_000_000 * US_PER_S + 123_456
PAGE = (Path(__file__).parents[2] / "docs" / "delay-limits.md").read_text()

LONGEST = {
    "aliyun4": 40 * DAY,
    "aliyun5": 40 * DAY,
    "aliyun5-standard": 7 * DAY,
    "huawei": 365 * DAY,
    "huawei5": 7 * DAY,
    "cmq": 3_600 * US_PER_S,
    "sqs": 900 * US_PER_S,
    "rabbitmq": 4_294_967_295 * US_PER_MS,
    "rocketmq5": 3 * DAY,
}
WORDS = {
    "sqs": "Value 901 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.",
    "rabbitmq": "PRECONDITION_FAILED - invalid expiration '4294967296': {value_too_big,4294967296}",
    "cmq": "Tencent's CMQ refuses a delay of 1h1ms; allowed: at most 1h",
}


def test_every_system_has_a_name_sources_and_a_row_in_the_docs() -> None:
    assert tuple(DELAY_LIMITS) == get_args(DelayLimitsName)
    for name, delay_limits in DELAY_LIMITS.items():
        assert f"| `{name}` |" in PAGE
        assert delay_limits.sources
        for source in delay_limits.sources:
            assert source.url in PAGE, (name, source.url)
            assert source.date.removeprefix("read ") in PAGE, (name, source.date)
            assert source.unverified in PAGE, (name, source.unverified)


@pytest.mark.parametrize("name", LONGEST)
def test_only_delays_up_to_the_longest_pass(name: str) -> None:
    delay_limits, longest = DELAY_LIMITS[name], LONGEST[name]
    assert not delay_limits.is_refused(longest, ignored=False)
    assert not delay_limits.is_at_once(longest, ignored=False)
    beyond = longest + US_PER_MS
    assert delay_limits.is_refused(beyond, ignored=False) is (delay_limits.beyond == "refused")
    assert delay_limits.is_at_once(beyond, ignored=False) is (delay_limits.beyond == "at once")


@pytest.mark.parametrize("name", sorted(DELAY_LIMITS.keys() - LONGEST.keys()))
def test_some_systems_have_no_longest_delay(name: str) -> None:
    assert not DELAY_LIMITS[name].is_refused(36_500 * DAY, ignored=False)
    assert not DELAY_LIMITS[name].is_at_once(36_500 * DAY, ignored=False)


def test_only_aliyun_5_delivers_longer_delays_at_once() -> None:
    assert {name for name, each in DELAY_LIMITS.items() if each.beyond == "at once"} == {
        "aliyun5",
        "aliyun5-standard",
    }


@pytest.mark.parametrize("name", WORDS)
def test_refusal_names_the_limit_of_the_system(name: str) -> None:
    assert DELAY_LIMITS[name].words(LONGEST[name] + US_PER_MS) == WORDS[name]


@pytest.mark.parametrize(
    ("name", "delay_us", "granted_us"),
    [
        *(("sqs", 1, 1_000_000), ("sqs", 1_000_000, 1_000_000), ("sqs", 1_000_001, 2_000_000)),
        *(("cmq", 1_500_000, 2_000_000), ("rabbitmq", 1_500_001, 1_500_001)),
        *(("pulsar", 1_500_001, 1_500_001), ("aliyun5", 1_500_001, 1_500_001)),
    ],
)
def test_a_delay_is_rounded_up(name: str, delay_us: int, granted_us: int) -> None:
    assert DELAY_LIMITS[name].rounded_us(NOW, NOW + delay_us) - NOW == granted_us


@pytest.mark.parametrize(
    ("name", "grain_us"), [("aliyun4", US_PER_S), ("rocketmq5", US_PER_S), ("huawei", 100_000)]
)
def test_a_due_time_is_rounded_up(name: str, grain_us: int) -> None:
    whole = 1_800_000_060 * US_PER_S
    for due, granted in ((whole, whole), (whole - 1, whole), (whole + 1, whole + grain_us)):
        assert DELAY_LIMITS[name].rounded_us(NOW, due) == granted


def test_pulsar_delivers_delays_below_a_tick_at_once() -> None:
    assert DELAY_LIMITS["pulsar"].is_at_once(US_PER_S, ignored=False)
    assert not DELAY_LIMITS["pulsar"].is_at_once(US_PER_S + 1, ignored=False)


def test_only_sqs_limits_messages_in_flight() -> None:
    limits = {name: each.in_flight for name, each in DELAY_LIMITS.items() if each.in_flight is not None}
    assert limits == {"sqs": 120_000}
    assert DELAY_LIMITS["sqs"].over_limit.startswith("OverLimit: ")


def test_delays_unknown_to_a_system_are_delivered_at_once() -> None:
    assert DELAY_LIMITS["rocketmq4"].ignores == {"timer", "start"}
    assert DELAY_LIMITS["rocketmq5"].ignores == {"start"}
    for name in ("rocketmq4", "rocketmq5"):
        assert DELAY_LIMITS[name].is_at_once(4 * DAY, ignored=True)
        assert not DELAY_LIMITS[name].is_refused(4 * DAY, ignored=True)


def test_a_shorter_delay_waits_behind_a_longer_one() -> None:
    line = WaitingLine(1)
    assert [line.join(0, due) for due in (10, 60, 5, 70, 20)] == [10, 60, 60, 70, 70]
    assert line.join(61, 65) == 70  # the first messages have left
    assert line.join(70, 71) == 71  # now all have left


def test_full_waiting_line_delays_later_messages() -> None:
    line = WaitingLine(3)
    assert [line.join(0, due) for due in (10, 30, 20)] == [10, 30, 20]
    assert line.join(0, 5) == 10  # until two are in line
    assert line.join(0, 5) == 10  # the previous message is due then too
    assert line.join(0, 40) == 40
    assert line.join(30, 31) == 31


@given(
    st.sampled_from(list(DELAY_LIMITS.values())),
    st.lists(st.tuples(st.integers(0, 1 << 45), st.booleans()), min_size=1, max_size=20),
)
def test_arrays_are_judged_as_single_delays(
    delay_limits: DelayLimits, given_: list[tuple[int, bool]]
) -> None:
    delays, ignored = [each[0] for each in given_], [each[1] for each in given_]
    many, many_ignored = np.array(delays), np.array(ignored)
    pairs = list(zip(delays, ignored, strict=True))
    refused = delay_limits.is_refused(many, ignored=many_ignored)
    assert refused.tolist() == [delay_limits.is_refused(one, ignored=no) for one, no in pairs]
    at_once = delay_limits.is_at_once(many, ignored=many_ignored)
    assert at_once.tolist() == [delay_limits.is_at_once(one, ignored=no) for one, no in pairs]
    assert not (refused & at_once).any()
    rounded = delay_limits.rounded_us(np.full(len(many), NOW), NOW + many)
    assert rounded.tolist() == [delay_limits.rounded_us(NOW, NOW + one) for one in delays]
    assert (rounded >= NOW + many).all()
    assert (rounded < NOW + many + delay_limits.grain_us).all()
