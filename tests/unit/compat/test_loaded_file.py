"""A loaded file of the wheel behaves like a dictionary in any sequence of steps."""

from hypothesis import given
from hypothesis import strategies as st

from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.wheel.loaded_file import LoadedFile

# Few values of each, so that seconds, numbers and hashes repeat often.
entries = st.builds(
    Entry, st.sampled_from([0, 1, 999, 1_000, 1_500, 2_000, 9_000]), st.integers(0, 3), st.integers(0, 2)
)


@given(
    st.dictionaries(entries, st.integers(0, 9)), st.lists(st.tuples(entries, st.integers(0, 9) | st.none()))
)
def test_loaded_file_keeps_pending_entries_in_order(
    begun: dict[Entry, int], steps: list[tuple[Entry, int | None]]
) -> None:
    loaded, waiting = LoadedFile(begun), dict(begun)
    for entry, offset in steps:
        if offset is None:
            loaded.remove(entry)
            waiting.pop(entry, None)
        else:
            loaded.add(entry, offset)
            waiting[entry] = offset
        assert loaded.offset(entry) == waiting.get(entry)
    in_order = sorted(waiting)
    assert [entry for second in loaded.seconds() for entry in loaded.of(second)] == in_order
    assert {entry: loaded.offset(entry) for entry in in_order} == waiting
    assert sum(loaded.by_second().values()) == len(waiting)
    for field, value in ((1, 2), (2, 0)):
        assert sorted(loaded.matching(field, value)) == [e for e in in_order if e[field] == value]


def test_removed_entries_take_no_more_room_than_waiting_ones() -> None:
    some = [Entry(1_000, number, 7) for number in range(1_000)]
    loaded = LoadedFile({entry: entry.number for entry in some})
    for entry in some[:-10]:
        loaded.remove(entry)
    assert [*loaded.of(1)] == some[-10:]
    assert sum(len(slot.numbers) for slot in loaded._slots.values()) <= 2 * 4 * 10
