"""The index of delayed files, held to a plain sorted list through any sequence of steps."""

import random
import sys

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from mocketmq_compat.delay.delay_index import DelayIndex
from mocketmq_compat.delay.delayed_file import Entry

# Few of each, so that seconds, numbers and hashes are met again and again.
entries = st.builds(
    Entry, st.sampled_from([0, 1, 999, 1_000, 1_500, 2_000, 9_000]), st.integers(0, 3), st.integers(0, 2)
)


class IndexMachine(RuleBasedStateMachine):
    """``waiting`` are the files that are there, ``picked`` those of them that were taken out of the order."""

    known = Bundle("known")

    def __init__(self) -> None:
        super().__init__()
        self.index = DelayIndex()
        self.waiting: set[Entry] = set()
        self.picked: set[Entry] = set()

    def in_order(self) -> list[Entry]:
        return sorted(self.waiting - self.picked)

    @rule(target=known, entry=entries)
    def add(self, entry: Entry) -> Entry:
        if entry not in self.waiting:
            self.index.add(entry)
            self.waiting.add(entry)
        return entry

    @rule(entry=known | entries)
    def remove(self, entry: Entry) -> None:
        was_there = entry in self.waiting
        self.waiting.discard(entry)
        self.picked.discard(entry)
        is_empty = all(each.second != entry.second for each in self.waiting)
        assert self.index.remove(entry) == (was_there and is_empty)

    @rule(entry=consumes(known))
    def remove_and_add_again(self, entry: Entry) -> None:
        self.remove(entry)
        self.add(entry)

    @rule()
    def first(self) -> None:
        assert self.index.first() == next(iter(self.in_order()), None)

    @precondition(lambda self: self.in_order())
    @rule()
    def pick(self) -> None:
        entry = self.in_order()[0]
        assert self.index.pick() == entry
        self.picked.add(entry)

    @precondition(lambda self: not self.in_order())
    @rule()
    def pick_of_nothing(self) -> None:
        with pytest.raises(LookupError):
            self.index.pick()

    @rule(others=st.lists(known))
    def put_back(self, others: list[Entry]) -> None:
        """All that was picked; of the others, those that are gone stay gone and no other comes twice."""
        self.index.put_back([*self.picked, *others])
        self.picked.clear()

    @rule()
    def clear(self) -> None:
        self.index.clear()
        self.waiting.clear()
        self.picked.clear()

    @rule(entry=known | entries)
    def look_up(self, entry: Entry) -> None:
        assert (entry in self.index) == (entry in self.waiting)
        same_key = [each for each in self.waiting if each.key_hash == entry.key_hash]
        same_number = [each for each in self.waiting if each.number == entry.number]
        assert self.index.with_key(entry.key_hash) == sorted(same_key)
        assert self.index.with_number(entry.number) == sorted(same_number)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        assert len(self.index) == len(self.waiting)
        assert sorted(self.index) == sorted(self.waiting)
        assert self.index.directories == len({each.second for each in self.waiting})

    def teardown(self) -> None:
        expected = self.in_order()
        assert [self.index.pick() for _ in expected] == expected
        assert self.index.first() is None


TestIndex = IndexMachine.TestCase
TestIndex.settings = settings(max_examples=100, stateful_step_count=30, derandomize=True)


def test_many_seconds_come_in_order() -> None:
    chance = random.Random(7)
    numbers = list(range(20_000))
    chance.shuffle(numbers)
    added = [Entry(1_700_000_000_000 + chance.randrange(5_000_000), number, 1) for number in numbers]
    index = DelayIndex()
    for entry in added:
        index.add(entry)
    assert index.directories == len({entry.second for entry in added})
    picked = []
    while index.first() is not None:
        entry = index.pick()
        picked.append(entry)
        index.remove(entry)
    assert picked == sorted(added)
    assert (len(index), index.directories) == (0, 0)


def test_what_is_not_due_for_long_takes_little_memory() -> None:
    index = DelayIndex()
    for number in range(10_000):
        index.add(Entry(1_000 + number, number, 1 << 62))
    packed = sum(sys.getsizeof(array) for array in index._packed.values())
    assert packed < 10_000 * 32
    index.first()
    assert index.directories == 10
    assert len(index._open) == 1
