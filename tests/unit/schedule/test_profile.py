"""Profiles: when the head of a level is delivered, and when the offset table is saved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.clock import US_PER_S
from mocketmq.schedule.profile import Profile, Rocketmq4, profile_named

MS = 1_000
HOUR_US = 3600 * US_PER_S
START_US = 1_700_000_000_000_007

instants = st.integers(START_US, START_US + 10**13)


def test_profiles_are_known_by_their_names() -> None:
    assert type(profile_named("exact", 0)) is Profile
    assert isinstance(profile_named("rocketmq4", 0), Rocketmq4)


@given(instants, instants)
def test_exact_delivers_at_the_due_time(due_us: int, now_us: int) -> None:
    assert Profile().fires_at(due_us, 0, now_us) == due_us


@pytest.mark.parametrize(
    ("due_ms", "looked_at_ms"),
    [
        (-5000, 1000),
        (0, 1000),
        (1000, 1000),
        (1000.001, 1100),
        (1099, 1100),
        (1100, 1100),
        (7200_050, 7200_100),
    ],
)
def test_rocketmq4_looks_a_second_after_the_start_and_each_100_ms(due_ms: float, looked_at_ms: int) -> None:
    due_us = START_US + round(due_ms * MS)
    profile = Rocketmq4(START_US)
    assert profile.fires_at(due_us, 3 * HOUR_US, START_US) == START_US + looked_at_ms * MS


@given(due_us=instants, now_us=instants)
def test_rocketmq4_is_never_early_and_at_most_one_look_late(due_us: int, now_us: int) -> None:
    fires_us = Rocketmq4(START_US).fires_at(due_us, 10**14, now_us)
    assert due_us <= fires_us < max(due_us, START_US + US_PER_S) + 100 * MS


@pytest.mark.parametrize("now_ms", [1000, 1030, 5000])
def test_due_time_beyond_the_whole_delay_fires_at_once(now_ms: int) -> None:
    now_us = START_US + now_ms * MS
    profile = Rocketmq4(START_US)
    for corrected_us in (now_us + 10 * US_PER_S + 1, now_us + HOUR_US):
        assert now_us - 100 * MS < profile.fires_at(corrected_us, 10 * US_PER_S, now_us) <= now_us
    believed_us = now_us + 10 * US_PER_S
    assert profile.fires_at(believed_us, 10 * US_PER_S, now_us) >= believed_us


@pytest.mark.parametrize(("now_s", "saved_at_s"), [(0, 10), (9.999999, 10), (10, 20), (3599, 3600)])
def test_rocketmq4_saves_each_ten_seconds_from_its_start(now_s: float, saved_at_s: int) -> None:
    now_us = START_US + round(now_s * US_PER_S)
    assert Rocketmq4(START_US).saves_at(now_us) == START_US + saved_at_s * US_PER_S
