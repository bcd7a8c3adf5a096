"""The clock: its speed, its start, how it reads the wall clock, and that it never goes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.clock import (
    LATEST_US,
    US_PER_MS,
    US_PER_S,
    Clock,
    Mark,
    Moment,
    check_move,
    rate_of,
    start_instant_us,
    this_moment,
    whole_ms_us,
)
from mocketmq.errors import ClockError

START_US = 1_700_000_000_123_456
HOUR_US = 3600 * US_PER_S


class Ticks:
    """A steady clock that a test advances by hand."""

    def __init__(self) -> None:
        self.now_us = 77

    def __call__(self) -> int:
        return self.now_us


@pytest.mark.parametrize(
    ("rate", "mode", "elapsed_us"),
    [
        (0, "manual", 0),
        (1, "real", 2_500_000),
        (60, "x60", 150_000_000),
        (0.5, "x0.5", 1_250_000),
        (1234.5678, "x1234.5678", 3_086_419_500),
        (1_000_000, "x1000000", 2_500_000_000_000),
    ],
)
def test_a_clock_runs_at_its_rate(rate: float, mode: str, elapsed_us: int) -> None:
    ticks = Ticks()
    clock = Clock(rate, START_US, ticks)
    assert clock.now_us() == START_US
    ticks.now_us += 2_500_000
    assert clock.now_us() == START_US + elapsed_us
    assert clock.mode == mode
    assert rate_of(mode) == rate


@pytest.mark.parametrize(("rate", "seconds"), [(0, None), (1, 30.0), (60, 0.5)])
def test_wait_is_in_real_seconds(rate: float, seconds: float | None) -> None:
    clock = Clock(rate, START_US, Ticks())
    assert clock.seconds_until(START_US + 30 * US_PER_S) == seconds
    assert clock.seconds_until(START_US) == clock.seconds_until(START_US - 1) == 0


@pytest.mark.parametrize("rate", [0, 1, 60])
def test_a_clock_is_set_forward_and_runs_on_from_there(rate: float) -> None:
    ticks = Ticks()
    clock = Clock(rate, START_US, ticks)
    ticks.now_us += 1_000
    clock.reach(START_US + US_PER_S)
    assert clock.now_us() == START_US + US_PER_S
    ticks.now_us += 1_000
    assert clock.now_us() == START_US + US_PER_S + 1_000 * rate


@given(
    st.sampled_from([0.0, 0.1, 1.0, 3.7, 1_000_000.0]),
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(-(10**9), 10**12))),
)
def test_a_clock_never_goes_backwards(rate: float, steps: list[tuple[int, int]]) -> None:
    ticks = Ticks()
    clock = Clock(rate, START_US, ticks)
    for elapsed_us, ahead_us in steps:
        before_us = clock.now_us()
        ticks.now_us += elapsed_us
        clock.reach(before_us + ahead_us)
        assert clock.now_us() >= max(before_us, before_us + ahead_us)


class Machine:
    """A machine with a wall clock and a steady clock."""

    def __init__(self) -> None:
        self.ticks, self.wall = Ticks(), Ticks()
        self.wall.now_us = START_US

    def clock(self, rate: float, start_us: int = START_US, started: Moment | None = None) -> Clock:
        return Clock(rate, start_us, self.ticks, self.wall, started)

    def now(self) -> Moment:
        return this_moment(self.wall, self.ticks)

    def run(self, elapsed_us: int, wall_step_us: int = 0) -> None:
        self.ticks.now_us += elapsed_us
        self.wall.now_us += elapsed_us + wall_step_us


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_unmoved_real_clock_keeps_wall_instants(
    machine: Machine,
) -> None:
    clock = machine.clock(1)
    for instant_us in (START_US + 1, START_US - 1, 0, -5, LATEST_US + 7):
        assert clock.from_wall(instant_us) == instant_us
    machine.run(3_600 * US_PER_S, wall_step_us=US_PER_MS * 100)
    assert clock.from_wall(START_US + 1) == START_US + 1
    machine.run(1, wall_step_us=-US_PER_MS * 200)
    assert clock.from_wall(START_US + 1) == START_US + 1


def test_moved_real_clock_shifts_wall_instants_by_the_move(machine: Machine) -> None:
    clock = machine.clock(1)
    machine.run(US_PER_S, wall_step_us=7)
    clock.reach(clock.now_us() + 1_234_567)
    assert clock.from_wall(START_US) == START_US + 1_234_567
    machine.run(US_PER_S)
    clock.reach(clock.now_us() - 1)
    clock.reach(clock.now_us() + 3)
    assert clock.from_wall(START_US) == START_US + 1_234_570


def test_start_of_a_real_clock_shifts_wall_instants(machine: Machine) -> None:
    started = machine.now()
    machine.run(40)
    clock = machine.clock(1, START_US + HOUR_US + 1, started)  # created 40 us after both clocks were read
    assert clock.from_wall(START_US + 11) == START_US + HOUR_US + 12
    assert clock.now_us() == START_US + HOUR_US + 1 + 40


def test_clocks_are_read_together_despite_preemption(machine: Machine) -> None:
    waits_us = [(0, 5_000), (9_000, 0), (150_000, 3), (2, 1), (0, 0)]

    def wall() -> int:
        before_us, after_us = waits_us.pop(0)
        machine.run(before_us)
        read_us = machine.wall.now_us
        machine.run(after_us)
        return read_us

    moment = this_moment(wall, machine.ticks)
    assert waits_us == [(0, 0)]
    assert abs((moment.wall_us - START_US) - (moment.steady_us - 77)) <= 2


def test_closest_of_preempted_readings_counts(machine: Machine) -> None:
    waits_us = [*[5_000] * 20, 300, *[4_000] * 10]

    def wall() -> int:
        machine.run(waits_us.pop())
        return machine.wall.now_us

    moment = this_moment(wall, machine.ticks)
    assert (moment.wall_us - START_US) - (moment.steady_us - 77) == 300


def test_a_wait_between_two_readings_is_no_step_of_the_wall_clock(machine: Machine) -> None:
    waits_us = [150_000]

    def wall() -> int:
        machine.run(waits_us.pop() if waits_us else 0)
        return machine.wall.now_us

    clock = Clock(1, START_US + HOUR_US, machine.ticks, wall, machine.now())
    assert clock.from_wall(START_US + 11) == START_US + HOUR_US + 11
    assert not waits_us


@pytest.mark.parametrize("step_us", [-3_600 * US_PER_S, -100_001, 100_001, 86_400 * US_PER_S])
def test_stepped_wall_clock_keeps_the_distance_of_an_instant(machine: Machine, step_us: int) -> None:
    clock = machine.clock(1)
    machine.run(US_PER_S, step_us)
    assert clock.from_wall(machine.wall.now_us + 10 * US_PER_S) == whole_ms_us(clock.now_us() + 10 * US_PER_S)


@pytest.mark.parametrize("rate", [0, 0.5, 60])
def test_manual_and_scaled_clocks_keep_the_distance_of_an_instant(machine: Machine, rate: float) -> None:
    clock = machine.clock(rate)
    machine.run(5 * US_PER_S + 1)
    clock.reach(clock.now_us() + HOUR_US)
    assert clock.from_wall(machine.wall.now_us + 10 * US_PER_S) == whole_ms_us(clock.now_us() + 10 * US_PER_S)


@given(
    st.sampled_from([0.0, 0.5, 1.0, 60.0]),
    st.lists(
        st.tuples(st.integers(0, 10**9), st.integers(-(10**10), 10**10), st.integers(-(10**9), 10**12)),
        max_size=8,
    ),
    st.integers(-(10**12), 10**15),
)
def test_wall_instant_keeps_its_distance_from_now(
    rate: float, steps: list[tuple[int, int, int]], ahead_us: int
) -> None:
    machine = Machine()
    clock = machine.clock(rate)
    drift_us = 0
    for elapsed_us, wall_step_us, move_us in steps:
        machine.run(elapsed_us, wall_step_us)
        clock.reach(clock.now_us() + move_us)
        drift_us += wall_step_us
    error_us = clock.from_wall(machine.wall.now_us + ahead_us) - (clock.now_us() + ahead_us)
    if rate == 1 and abs(drift_us) <= 100 * US_PER_MS:
        assert error_us == drift_us
    else:
        assert 0 <= error_us < US_PER_MS


def test_whole_milliseconds_are_rounded_up() -> None:
    assert [whole_ms_us(us) for us in (-1_001, -1_000, -999, 0, 1, 1_000, 1_001)] == [
        *(-1_000, -1_000, 0, 0, 1_000, 1_000, 2_000)
    ]


def test_a_move_is_forward_and_within_the_calendar() -> None:
    check_move(5, 5)
    check_move(5, LATEST_US)
    with pytest.raises(ClockError, match=r"2000 ms, .*500 ms .*1\.5s"):
        check_move(2_000_000, 500_000)
    with pytest.raises(ClockError, match="year 9999"):
        check_move(5, LATEST_US + 1)


WALL_US = START_US + HOUR_US


@pytest.mark.parametrize(
    ("mode", "last_us", "mark", "expected_us"),
    [
        pytest.param("real", 0, None, WALL_US, id="a new store: the wall clock"),
        pytest.param("manual", 0, None, WALL_US - 456, id="a new store, manual: a whole millisecond"),
        pytest.param("x60", 0, None, WALL_US, id="a new store, scaled: the wall clock"),
        pytest.param(
            "manual", START_US, Mark("manual", START_US, START_US), START_US, id="manual: where it stood"
        ),
        pytest.param(
            "real",
            START_US,
            Mark("real", START_US, START_US + 2 * HOUR_US),
            WALL_US + 2 * HOUR_US,
            id="real: keeps the offset it was moved by",
        ),
        pytest.param(
            "real",
            WALL_US + HOUR_US,
            Mark("real", START_US, START_US),
            WALL_US + HOUR_US,
            id="real: never before what is stored, though the wall clock was set back",
        ),
        pytest.param(
            "x60", START_US, Mark("x60", START_US, START_US), START_US + 60 * HOUR_US, id="scaled: ran on"
        ),
        pytest.param(
            "manual",
            START_US + 5,
            Mark("real", START_US, START_US),
            WALL_US,
            id="manual after real: where that clock would be now",
        ),
        pytest.param(
            "manual",
            START_US + 5,
            Mark("x1000", START_US, START_US + 5),
            START_US + 5 + 1000 * HOUR_US,
            id="manual after scaled: where that clock would be now",
        ),
        pytest.param(
            "real",
            START_US + 5,
            Mark("x1000", START_US, START_US),
            START_US + 1000 * HOUR_US,
            id="real after scaled: where that clock would be now",
        ),
        pytest.param(
            "x60",
            START_US,
            Mark("real", START_US, START_US + 2 * HOUR_US),
            WALL_US + 2 * HOUR_US,
            id="scaled after a real one that was moved: where that clock would be now",
        ),
        pytest.param(
            "real",
            START_US,
            Mark("x0.5", START_US, START_US),
            WALL_US,
            id="real after a slow one: the wall clock",
        ),
        pytest.param(
            "real",
            WALL_US + HOUR_US,
            Mark("manual", START_US, WALL_US + HOUR_US),
            WALL_US + HOUR_US,
            id="real after manual: not before that",
        ),
        pytest.param(
            "real",
            START_US,
            Mark("manual", START_US, START_US),
            WALL_US,
            id="real after manual: the wall clock",
        ),
    ],
)
def test_where_a_clock_starts(mode: str, last_us: int, mark: Mark | None, expected_us: int) -> None:
    assert start_instant_us(mode, WALL_US, last_us, mark) == expected_us


@given(
    st.sampled_from(["real", "manual", "x0.1", "x60", "x1234.5678", "x1000000"]),
    st.sampled_from(["real", "manual", "x0.1", "x60", "x1234.5678", "x1000000"]),
    st.integers(0, 10**12),
    st.integers(0, 10**12),
)
def test_restart_never_sets_a_clock_back(mode: str, new_mode: str, moved_us: int, elapsed_us: int) -> None:
    ticks = Ticks()
    clock = Clock(rate_of(mode), START_US + moved_us, ticks)
    mark = Mark(clock.mode, START_US, clock.now_us())
    ticks.now_us += elapsed_us
    assert start_instant_us(new_mode, START_US + elapsed_us, mark.at_us, mark) >= clock.now_us()
