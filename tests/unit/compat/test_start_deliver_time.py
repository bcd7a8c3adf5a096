"""Absolute due times: which property counts, and how and when each mode interprets it."""

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.clock import LATEST_US, US_PER_MS, US_PER_S, Clock
from mocketmq.errors import EmulatorError, IllegalMessageError, InvalidArgumentError, wire_codes
from mocketmq.message.properties import (
    MAX_TIMER_DELAY_MS,
    START_DELIVER_TIME,
    TIMER_DEL_UNIQKEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    TIMERS,
)
from mocketmq.settings import Settings, StartDeliverMode
from mocketmq_compat.delay.start_deliver_time import StartDeliverTime, parse_long

NOW_MS = 1_767_225_600_000
NOW_US = NOW_MS * US_PER_MS + 456
DAY_MS = 86_400_000
WINDOW_MS = 40 * DAY_MS
LAST_MS = LATEST_US // US_PER_MS
MODES: tuple[StartDeliverMode, ...] = get_args(StartDeliverMode)
UPSTREAM = (
    "timer message illegal, the delay time should not be bigger than the max delay 259200000dms;"
    " or if set del msg, the delay time should be bigger than the current time"
)


class Bench:
    """A judge and stopped clocks: the wall clock at NOW_US, and the emulated clock ahead of it."""

    def __init__(
        self, mode: StartDeliverMode = "aliyun4", ahead_us: int = 0, window_us: int = WINDOW_MS * US_PER_MS
    ) -> None:
        self.clock = Clock(1, NOW_US + ahead_us, ticks=lambda: 0, wall=lambda: NOW_US)
        self.judge = StartDeliverTime(self.clock, mode, window_us)

    def due_us(self, level: int = 0, /, **properties: str) -> int | None:
        return self.judge.due_us(properties, level)

    def start(self, value: int | str) -> int | None:
        return self.judge.due_us({START_DELIVER_TIME: str(value)}, 0)

    def refused(self, properties: dict[str, str]) -> EmulatorError:
        before = dict(properties)
        with pytest.raises((IllegalMessageError, InvalidArgumentError)) as refused:
            self.judge.due_us(properties, 0)
        assert properties == before
        assert isinstance(refused.value, EmulatorError)
        return refused.value


@pytest.fixture(params=MODES)
def bench(request: pytest.FixtureRequest) -> Bench:
    """Run the test in each mode."""
    return Bench(request.param)


def test_the_defaults_are_those_of_aliyun_4() -> None:
    settings = Settings()
    assert settings.start_deliver_time == "aliyun4"
    assert settings.start_deliver_window_us == WINDOW_MS * US_PER_MS


# Which property counts


def test_message_without_a_delay_property_is_not_delayed(bench: Bench) -> None:
    properties = {"DELAY": "0", TIMER_DEL_UNIQKEY: "x", "__SHARDINGKEY": "1"}
    assert bench.judge.due_us(properties, 0) is None
    assert properties == {"DELAY": "0", TIMER_DEL_UNIQKEY: "x", "__SHARDINGKEY": "1"}


def test_a_level_takes_precedence_and_drops_the_timers(bench: Bench) -> None:
    properties = dict.fromkeys(TIMERS, "5000") | {START_DELIVER_TIME: "abc", "DELAY": "3", "a": "b"}
    assert bench.judge.due_us(properties, 3) is None
    assert properties == {START_DELIVER_TIME: "abc", "DELAY": "3", "a": "b"}


def test_a_start_deliver_time_takes_precedence_over_timers_and_keeps_them(bench: Bench) -> None:
    properties = dict.fromkeys(TIMERS, "abc") | {START_DELIVER_TIME: str(NOW_MS + 7), TIMER_OUT_MS: "1"}
    before = dict(properties)
    assert bench.judge.due_us(properties, 0) == (NOW_MS + 7) * US_PER_MS
    assert properties == before
    properties[START_DELIVER_TIME] = str(NOW_MS - 7)
    assert bench.judge.due_us(properties, 0) is None


def test_first_of_several_timers_counts(bench: Bench) -> None:
    timers = {TIMER_DELAY_SEC: "5", TIMER_DELAY_MS: "70", TIMER_DELIVER_MS: str(NOW_MS + 900)}
    for due_us in (NOW_US + 5 * US_PER_S, NOW_US + 70 * US_PER_MS, (NOW_MS + 900) * US_PER_MS):
        assert bench.due_us(**timers) == due_us
        first, *others = timers
        assert bench.due_us(**{first: timers[first]}, **dict.fromkeys(others, "abc")) == due_us
        del timers[first]


def test_a_former_timer_is_ignored(bench: Bench) -> None:
    for name in TIMERS:
        properties = {name: "abc", TIMER_OUT_MS: "1"}
        assert bench.judge.due_us(properties, 0) is None
        assert properties == {name: "abc", TIMER_OUT_MS: "1"}


# __STARTDELIVERTIME


def test_property_keeps_its_value(bench: Bench) -> None:
    properties = {START_DELIVER_TIME: f"+00{NOW_MS + 1}"}
    assert bench.judge.due_us(properties, 0) == (NOW_MS + 1) * US_PER_MS
    assert properties == {START_DELIVER_TIME: f"+00{NOW_MS + 1}"}


@pytest.mark.parametrize("value", [NOW_MS - 1, 1, 0, -1, -NOW_MS, -(1 << 63)])
def test_past_due_time_delivers_at_once(bench: Bench, value: int) -> None:
    assert bench.start(value) is None


@pytest.mark.parametrize("value", [NOW_MS + 1, NOW_MS + 1_234_567, NOW_MS + WINDOW_MS])
def test_due_time_in_the_window_is_exact(bench: Bench, value: int) -> None:
    assert bench.start(value) == value * US_PER_MS


@pytest.mark.parametrize(("mode", "delayed"), [("aliyun4", False), ("aliyun5", False), ("dongwo", True)])
@pytest.mark.parametrize("fraction_us", [-456, 0, 543])
def test_current_millisecond_is_delayed_by_dongwo_only(
    mode: StartDeliverMode, delayed: bool, fraction_us: int
) -> None:
    now_us = NOW_US + fraction_us
    judge = StartDeliverTime(Clock(1, now_us, ticks=lambda: 0, wall=lambda: now_us), mode, US_PER_S)
    due_us = judge.due_us({START_DELIVER_TIME: str(NOW_MS)}, 0)
    assert due_us == (NOW_MS * US_PER_MS if delayed else None)


@pytest.mark.parametrize("value", [NOW_MS + WINDOW_MS + 2, LAST_MS, LAST_MS + 1, (1 << 63) - 1])
def test_aliyun_4_refuses_due_times_beyond_the_window(value: int) -> None:
    refused = Bench("aliyun4").refused({START_DELIVER_TIME: str(value)})
    assert (wire_codes(refused).remoting, wire_codes(refused).http) == (13, 400)
    assert isinstance(refused, IllegalMessageError)
    assert refused.field == "start_deliver_ms"
    assert re.fullmatch(
        rf"property __STARTDELIVERTIME is {value}, \S+ ahead;"
        rf" allowed: at most 40d ahead, now up to {NOW_MS + WINDOW_MS + 1}",
        str(refused),
    )


@pytest.mark.parametrize("window_us", [2_000, 3_500, US_PER_S, 7 * DAY_MS * US_PER_MS])
@pytest.mark.parametrize("ahead_us", [0, 1_300, US_PER_S])
def test_aliyun_4_accepts_due_times_up_to_the_limit_in_the_error(window_us: int, ahead_us: int) -> None:
    bench = Bench("aliyun4", ahead_us, window_us)
    told = re.search("up to ([0-9]+)", str(bench.refused({START_DELIVER_TIME: str(1 << 62)})))
    assert told
    last_ms = int(told[1])
    assert bench.start(last_ms) == last_ms * US_PER_MS + ahead_us
    bench.refused({START_DELIVER_TIME: str(last_ms + 1)})


@pytest.mark.parametrize("mode", ["aliyun4", "aliyun5"])
def test_an_empty_window_has_no_room_for_a_delay(mode: StartDeliverMode) -> None:
    bench = Bench(mode, window_us=0)
    assert bench.start(NOW_MS) is None
    if mode == "aliyun5":
        assert bench.start(NOW_MS + 2) is None
    else:
        bench.refused({START_DELIVER_TIME: str(NOW_MS + 2)})


@pytest.mark.parametrize("value", [NOW_MS + WINDOW_MS + 2, LAST_MS, LAST_MS + 1, (1 << 63) - 1])
def test_aliyun_5_delivers_due_times_beyond_the_window_at_once(value: int) -> None:
    assert Bench("aliyun5").start(value) is None


def test_dongwo_has_no_window_but_the_calendar_ends() -> None:
    bench = Bench("dongwo", window_us=0)
    assert bench.start(NOW_MS + 100 * WINDOW_MS) == (NOW_MS + 100 * WINDOW_MS) * US_PER_MS
    assert bench.start(LAST_MS) == LAST_MS * US_PER_MS
    for value in (LAST_MS + 1, (1 << 63) - 1):
        refused = bench.refused({START_DELIVER_TIME: str(value)})
        assert wire_codes(refused).remoting == 13
        assert str(refused) == (
            f"property __STARTDELIVERTIME is {value}; allowed: up to {LAST_MS}, where the year 9999 ends"
        )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ahead_us", [1, 999, 1_000, 3_600 * US_PER_S + 7])
def test_calendar_ends_for_a_moved_clock_too(mode: StartDeliverMode, ahead_us: int) -> None:
    bench = Bench(mode, ahead_us, window_us=LATEST_US)
    last_ms = (LATEST_US - ahead_us) // US_PER_MS
    assert bench.start(last_ms) == last_ms * US_PER_MS + ahead_us
    refused = bench.refused({START_DELIVER_TIME: str(last_ms + 1)})
    assert str(refused).endswith(f"; allowed: up to {last_ms}, where the year 9999 ends")


MALFORMED = [
    *(
        "abc",
        "+",
        "-",
        "--1",
        "1_000",
        "1.5",
        "1e3",
        "0x10",
        " 1",
        "1 ",
        "1\n",
        "null",
        "1767225600000L",
        "١",
    ),
    *("９", "9223372036854775808", "-9223372036854775809", "1" * 20, "9" * 32_000),
]


@pytest.mark.parametrize("text", MALFORMED)
@pytest.mark.parametrize("mode", ["aliyun4", "aliyun5"])
def test_aliyun_refuses_non_numeric_due_times(mode: StartDeliverMode, text: str) -> None:
    refused = Bench(mode).refused({START_DELIVER_TIME: text})
    assert isinstance(refused, IllegalMessageError)
    assert (wire_codes(refused).remoting, refused.field) == (13, "properties.__STARTDELIVERTIME")
    assert str(refused).startswith(f"property __STARTDELIVERTIME is {text!r}"[:60])
    assert str(refused).endswith(
        "; allowed: milliseconds since the epoch, a whole number of 64 bits, such as 1767225600000"
    )
    assert len(str(refused)) < 250


@pytest.mark.parametrize("text", MALFORMED)
def test_dongwo_answers_with_javas_exception(text: str) -> None:
    refused = Bench("dongwo").refused({START_DELIVER_TIME: text})
    assert isinstance(refused, InvalidArgumentError)
    assert (wire_codes(refused).remoting, refused.field) == (1, "properties.__STARTDELIVERTIME")
    assert str(refused) == (
        f'java.lang.NumberFormatException: For input string: "{text[:80]}"; property __STARTDELIVERTIME must'
        " be milliseconds since the epoch, a whole number of 64 bits, such as 1767225600000"
    )


@pytest.mark.parametrize("ahead_us", [0, 1_000, 1_234_567, 100 * 365 * DAY_MS * US_PER_MS])
def test_ten_seconds_from_now_ignores_earlier_clock_moves(bench: Bench, ahead_us: int) -> None:
    bench.clock.reach(NOW_US + ahead_us)
    assert bench.start(NOW_MS + 10_000) == (NOW_MS + 10_000) * US_PER_MS + ahead_us
    assert bench.due_us(TIMER_DELIVER_MS=str(NOW_MS + 10_000)) == (NOW_MS + 10_000) * US_PER_MS + ahead_us
    assert bench.due_us(TIMER_DELAY_SEC="10") == NOW_US + ahead_us + 10 * US_PER_S
    assert bench.start(NOW_MS - 1) is None


def test_manual_clock_accepts_the_whole_window_from_now() -> None:
    wall_us = NOW_US
    clock = Clock(0, NOW_MS * US_PER_MS + 500, wall=lambda: wall_us)
    judge = StartDeliverTime(clock, "aliyun4", WINDOW_MS * US_PER_MS)
    start = {START_DELIVER_TIME: str(wall_us // US_PER_MS + WINDOW_MS)}
    assert judge.due_us(start, 0) == (NOW_MS + WINDOW_MS) * US_PER_MS + 1_000
    wall_us += US_PER_S  # the request takes a second
    assert judge.due_us(start, 0) == (NOW_MS + WINDOW_MS - 1_000) * US_PER_MS + 1_000


@given(
    st.sampled_from(MODES),
    st.integers(-(1 << 63), (1 << 63) - 1)
    | st.integers(NOW_MS - 3, NOW_MS + 3)
    | st.integers(NOW_MS + WINDOW_MS - 3, NOW_MS + WINDOW_MS + 3),
    st.integers(0, 10**13),
)
def test_kept_messages_are_due_as_requested_and_never_before_now(
    mode: StartDeliverMode, value: int, ahead_us: int
) -> None:
    bench = Bench(mode, ahead_us)
    try:
        due_us = bench.start(value)
    except IllegalMessageError:
        assert value - NOW_MS > (WINDOW_MS if mode == "aliyun4" else LAST_MS - NOW_MS - 10**10)
        return
    if due_us is not None:
        assert due_us == value * US_PER_MS + ahead_us
        assert value >= NOW_MS
        assert due_us > bench.clock.now_us() - (US_PER_MS if mode == "dongwo" else 0)
    else:
        assert value <= NOW_MS or (mode == "aliyun5" and value > NOW_MS + WINDOW_MS)


# TIMER_*


def test_relative_timers_count_from_the_emulated_now(bench: Bench) -> None:
    assert bench.due_us(TIMER_DELAY_SEC="1") == NOW_US + US_PER_S
    assert bench.due_us(TIMER_DELAY_MS="+1") == NOW_US + US_PER_MS
    assert bench.due_us(TIMER_DELAY_SEC="259200") == NOW_US + MAX_TIMER_DELAY_MS * US_PER_MS
    assert bench.due_us(TIMER_DELAY_MS=str(MAX_TIMER_DELAY_MS)) == NOW_US + MAX_TIMER_DELAY_MS * US_PER_MS


def test_accepted_timer_is_marked_with_its_due_time(bench: Bench) -> None:
    for name, text, due_ms in (
        (TIMER_DELAY_SEC, "2", NOW_MS + 2_001),  # rounded up
        (TIMER_DELAY_MS, "2", NOW_MS + 3),
        (TIMER_DELIVER_MS, str(NOW_MS + 2), NOW_MS + 2),
    ):
        properties = {name: text}
        assert bench.judge.due_us(properties, 0)
        assert properties == {name: text, TIMER_OUT_MS: str(due_ms)}
        assert bench.judge.due_us(properties, 0) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((TIMER_DELAY_SEC, 0), (TIMER_DELAY_SEC, -1), (TIMER_DELAY_SEC, -(1 << 63))),
        *((TIMER_DELAY_MS, 0), (TIMER_DELAY_MS, -1)),
        *((TIMER_DELIVER_MS, NOW_MS), (TIMER_DELIVER_MS, NOW_MS - 1), (TIMER_DELIVER_MS, 0)),
        (TIMER_DELIVER_MS, -5),
    ],
)
def test_expired_timer_delivers_at_once_unmarked(bench: Bench, name: str, value: int) -> None:
    properties = {name: str(value)}
    assert bench.judge.due_us(properties, 0) is None
    assert properties == {name: str(value)}


@pytest.mark.parametrize(
    ("name", "value", "ahead"),
    [
        (TIMER_DELAY_SEC, 259_201, "3d1s"),
        (TIMER_DELAY_MS, MAX_TIMER_DELAY_MS + 1, "3d1ms"),
        (TIMER_DELIVER_MS, NOW_MS + MAX_TIMER_DELAY_MS + 2, None),
        (TIMER_DELAY_SEC, (1 << 63) // 1_000, None),  # upstream's multiplication overflows into the past
        (TIMER_DELAY_MS, (1 << 63) - 1, None),
        (TIMER_DELIVER_MS, (1 << 63) - 1, None),
    ],
)
def test_timers_beyond_three_days_are_refused_as_upstream(
    bench: Bench, name: str, value: int, ahead: str | None
) -> None:
    refused = bench.refused({name: str(value)})
    assert isinstance(refused, IllegalMessageError)
    assert (wire_codes(refused).remoting, refused.field) == (13, f"properties.{name}")
    assert str(refused).startswith(f"{UPSTREAM}; property {name} is {value}, ")
    assert ahead is None or str(refused).endswith(f", {ahead} ahead")


@pytest.mark.parametrize("text", MALFORMED)
@pytest.mark.parametrize("name", TIMERS)
def test_non_numeric_timer_is_refused_in_every_mode(bench: Bench, name: str, text: str) -> None:
    refused = bench.refused({name: text})
    assert isinstance(refused, IllegalMessageError)
    assert (wire_codes(refused).remoting, refused.field) == (13, f"properties.{name}")
    assert str(refused).startswith(f"{UPSTREAM}; property {name} is ")
    assert str(refused).endswith("; allowed: a whole number of 64 bits")
    assert len(str(refused)) < 350


@pytest.mark.parametrize("text", ["0", "5"])
def test_a_recall_by_property_is_refused_and_never_delivered_as_a_message(bench: Bench, text: str) -> None:
    refused = bench.refused({TIMER_DELAY_SEC: text, TIMER_DEL_UNIQKEY: "topic+key"})
    assert wire_codes(refused).remoting == 13
    why = "property TIMER_DEL_UNIQKEY is not supported; recall the message by its handle"
    assert str(refused) == f"{UPSTREAM}; {why}"


def test_instants_beyond_the_calendar_are_refused_and_delays_accepted(bench: Bench) -> None:
    bench.clock.reach(LATEST_US)
    assert bench.due_us(TIMER_DELAY_SEC="1") == LATEST_US + US_PER_S
    refused = bench.refused({TIMER_DELIVER_MS: str(NOW_MS + 1_000)})
    assert re.search(
        "property TIMER_DELIVER_MS is [0-9]+; allowed: up to [0-9]+, where the year 9999", str(refused)
    )


# Numbers


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("0", 0), ("-0", 0), ("+7", 7), ("-7", -7), ("007", 7), ("0" * 30_000 + "5", 5)),
        *(("9223372036854775807", (1 << 63) - 1), ("-9223372036854775808", -(1 << 63))),
    ],
)
def test_numbers_are_parsed_as_in_java(text: str, number: int) -> None:
    assert parse_long(text) == number


@given(st.integers(-(1 << 65), 1 << 65))
def test_numbers_have_64_bits(number: int) -> None:
    assert parse_long(str(number)) == (number if -(1 << 63) <= number < 1 << 63 else None)


@given(st.text())
def test_random_text_is_parsed_as_in_java(text: str) -> None:
    number = parse_long(text)
    if number is not None:
        assert int(text) == number
        assert re.fullmatch("[+-]?[0-9]+", text)
