"""Times by second behave like a dictionary."""

from hypothesis import given
from hypothesis import strategies as st

from mocketmq_compat.delay.directories.change_times import ChangeTimes

SECONDS = st.integers(0, 100) | st.integers(1 << 40, (1 << 40) + 3)
STEPS = st.lists(st.tuples(SECONDS, st.none() | st.integers(1, (1 << 63) - 1)))


@given(STEPS)
def test_times_are_those_noted_last_and_not_forgotten(steps: list[tuple[int, int | None]]) -> None:
    times, expected = ChangeTimes(), dict[int, int]()
    for second, changed_ns in steps:
        if changed_ns is None:
            times.forget(second)
            expected.pop(second, None)
        else:
            times.note(second, changed_ns)
            expected[second] = changed_ns
        assert {each: times.get(each) for each, _ in steps} == {each: expected.get(each) for each, _ in steps}
