"""A table of entries behaves like a sorted dictionary in any sequence of steps, in small steps."""

import random
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq_compat.delay import entry_table
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.entry_table import EntryTable

# Few values of each, so that seconds, numbers and hashes repeat often.
entries = st.builds(
    Entry, st.sampled_from([0, 1, 999, 1_000, 1_500, 2_000, 9_000]), st.integers(0, 3), st.integers(0, 2)
)


class CountingLock(nullcontext[None]):
    """Counts how often it is taken."""

    taken = 0

    def __enter__(self) -> None:
        self.taken += 1


def in_table(table: EntryTable) -> list[Entry]:
    return [entry for page in table.pages(nullcontext()) for entry in page]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_table, "BLOCK", 4)


@given(st.lists(st.tuples(entries, st.integers(0, 9) | st.none())), st.sets(entries))
def test_a_table_keeps_entries_in_order(steps: list[tuple[Entry, int | None]], without: set[Entry]) -> None:
    table, waiting = EntryTable(1), dict[Entry, int]()
    for entry, number in steps:
        if number is None:
            assert table.remove(entry) == (waiting.pop(entry, None) is not None)
        else:
            assert table.add(entry, number) == (entry not in waiting)
            waiting[entry] = number
        assert (entry in table, table.number_of(entry)) == (entry in waiting, waiting.get(entry))
    in_order = sorted(waiting)
    assert in_table(table) == in_order
    assert len(table) == sum(table.by_second.values()) == len(waiting)
    assert {entry: table.number_of(entry) for entry in in_order} == waiting
    others = [entry for entry in in_order if entry not in without]
    assert [table.first(limit, without, nullcontext()) for limit in (1, 5, 99)] == [
        others[:limit] for limit in (1, 5, 99)
    ]
    for field, value in ((1, 2), (2, 0)):
        assert table.matching(field, value, nullcontext()) == [e for e in in_order if e[field] == value]
    for second in (0, 1, 2, 3, 9):
        rows = sorted((*entry, number) for entry, number in waiting.items() if entry.second == second)
        assert [*zip(*table.of_second(second), strict=True)] == rows


@given(st.sets(entries), st.lists(entries))
def test_a_table_of_appended_entries_takes_more(begun: set[Entry], more: list[Entry]) -> None:
    other = EntryTable()
    for entry in begun:
        other.add(entry)
    table = EntryTable()
    for second in sorted(other.by_second):
        table.append(other.of_second(second), {second: other.by_second[second]})
    assert (in_table(table), table.by_second) == (sorted(begun), other.by_second)
    for entry in more:
        table.add(entry)
    assert in_table(table) == sorted({*begun, *more})


def test_a_page_of_a_large_table_reads_few_blocks() -> None:
    table = EntryTable()
    for number in random.Random(1).sample(range(2_000), 2_000):
        table.add(Entry(1_000 + number % 1_000, number, 7))
    left = in_table(table)
    while left:
        lock = CountingLock()
        assert table.first(20, (), lock) == left[:20]
        assert lock.taken <= 12  # blocks are at least half full, but for the first one
        for entry in left[:20]:
            table.remove(entry)
        left = left[20:]
    assert (len(table), in_table(table)) == (0, [])


def test_entries_that_come_in_order_fill_their_blocks() -> None:
    table, lock = EntryTable(), CountingLock()
    for number in range(40):
        table.add(Entry(1_000, number, 7))
    assert len(table.first(40, (), lock)) == 40
    assert lock.taken == 10


def test_many_seconds_are_counted_together_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    table = EntryTable()
    for number in range(3 * entry_table.BLOCK):
        table.add(Entry(number * 1_000, number, 0))
    exact = table.due_seconds()
    assert exact == table.by_second
    monkeypatch.setattr(entry_table, "MOST_SECONDS", len(exact) - 1)
    together = table.due_seconds()
    assert 1 < len(together) <= 6
    due = 0
    for second, count in together.items():
        due += count
        assert due == second + 1, "as many messages are due by then"
    assert due == len(table)
