"""The lateness of deliveries in the last minutes, by level, from the ledger.

The minutes are in real time, because a jump of the emulated clock would empty them. Forced deliveries and
deliveries held by an injected fault count as deliveries, but their lateness is ignored.
"""

from collections import Counter, deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from mocketmq.clock import US_PER_S, Clock, steady_us
from mocketmq.store.store import Store

SLOT_US: Final = 5 * US_PER_S
SLOTS: Final = 60
"""Number of slots that are kept, for five minutes."""
MINUTE_SLOTS: Final = 12
BEFORE: Final = 20_000
"""Maximum number of deliveries read from the time before the first reader."""

# Values are cut to three digits, so a percentile is exact to 1%. From 10 s on they are cut to whole seconds.
_DIGITS = """CASE WHEN late < 1000 THEN late WHEN late < 10000 THEN late / 10 * 10
 WHEN late < 100000 THEN late / 100 * 100 WHEN late < 1000000 THEN late / 1000 * 1000
 WHEN late < 10000000 THEN late / 10000 * 10000 ELSE late / 1000000 * 1000000 END"""
_NEW = f"""
SELECT 0, level, CASE WHEN counts THEN {_DIGITS} END, count(*), max(late) FROM (
 SELECT coalesce(level, 0) AS level, delivered_us - due_us AS late, forced = 0 AND fault IS NULL AS counts
 FROM deliveries WHERE delivered_offset >= ? AND delivered_offset < ?) GROUP BY 2, 3"""
_BEFORE = f"""
SELECT age, level, CASE WHEN counts THEN {_DIGITS} END, count(*), max(late) FROM (
 SELECT coalesce(level, 0) AS level, delivered_us - due_us AS late, forced = 0 AND fault IS NULL AS counts,
  CAST((? - delivered_us) / ? AS INTEGER) AS age
 FROM deliveries WHERE delivered_offset < ? ORDER BY delivered_offset DESC LIMIT ?)
WHERE age >= 0 AND age < ? GROUP BY 1, 2, 3"""

TIMED: Final = 0
"""Level number that is used for messages with an absolute due time."""


class Spread(NamedTuple):
    """The lateness of ``measured`` deliveries, in microseconds."""

    measured: int = 0
    p50_us: int = 0
    p99_us: int = 0
    max_us: int = 0


class _Slot:
    """The deliveries of a few seconds, by level."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.delivered: Counter[int] = Counter()
        self.late: dict[int, Counter[int]] = {}
        self.worst: dict[int, int] = {}
        self._spread: Spread | None = None

    def add(self, level: int, late_us: int | None, count: int, worst_us: int) -> None:
        self.delivered[level] += count
        if late_us is not None:
            self.late.setdefault(level, Counter())[late_us] += count
            self.worst[level] = max(self.worst.get(level, worst_us), worst_us)
            self._spread = None

    @property
    def spread(self) -> Spread:
        if self._spread is None:
            self._spread = _spread(sum(self.late.values(), Counter()), max(self.worst.values()))
        return self._spread


class RecentLateness:
    """Follows the ledger while there are readers."""

    def __init__(self, store: Store) -> None:
        self._database = store.database
        self._writer = store.writer
        self._clock: Clock = store.clock
        self._slots: deque[_Slot] = deque()
        self._late: dict[int, Counter[int]] = {}  # sum of all slots, by level
        self._by_level: dict[int, Spread] = {}
        self._read_to: int | None = None

    async def follow(self) -> None:
        """Read the deliveries since the last call. Raises a StoreError."""
        end, number = self._writer.next_log_offset, steady_us() // SLOT_US
        if self._read_to is None:
            slot_us = SLOT_US * (self._clock.rate or 1)
            given = (self._clock.now_us(), slot_us, end, BEFORE, SLOTS)
            rows = await self._database.rows(_BEFORE, given)
        elif self._read_to < end:
            rows = await self._database.rows(_NEW, (self._read_to, end))
        else:
            rows = []
        self._read_to = end
        for age, level, late_us, count, worst_us in sorted(rows, key=lambda row: -row[0]):
            self._slot(number - age).add(level, late_us, count, worst_us)
            if late_us is not None:
                self._late.setdefault(level, Counter())[late_us] += count
                self._by_level.pop(level, None)
        while self._slots and self._slots[0].number <= number - SLOTS:
            self._drop(self._slots.popleft())

    def _slot(self, number: int) -> _Slot:
        if not self._slots or self._slots[-1].number < number:
            self._slots.append(_Slot(number))
        return self._slots[-1]

    def _drop(self, slot: _Slot) -> None:
        for level, late in slot.late.items():
            self._late[level] -= late
            self._by_level.pop(level, None)

    def forget(self) -> None:
        """Start over, after the last reader has left or the ledger was emptied."""
        self._slots.clear()
        self._late.clear()
        self._by_level.clear()
        self._read_to = None

    def of_minute(self) -> Mapping[int, int]:
        """The number of messages delivered in the last minute, by level."""
        since = steady_us() // SLOT_US - MINUTE_SLOTS
        return sum((slot.delivered for slot in self._slots if slot.number > since), Counter())

    def by_level(self) -> Mapping[int, Spread]:
        """The lateness in all slots, by level."""
        for level, late in self._late.items():
            if late and level not in self._by_level:
                worst = max(slot.worst[level] for slot in self._slots if level in slot.worst)
                self._by_level[level] = _spread(late, worst)
        return dict(sorted(self._by_level.items()))

    def in_all(self) -> Spread:
        """The lateness in all slots."""
        levels = self.by_level()
        if len(levels) < 2:
            return next(iter(levels.values()), Spread())
        return _spread(sum(self._late.values(), Counter()), max(one.max_us for one in levels.values()))

    def in_time(self) -> list[tuple[int, Spread]]:
        """The lateness of each slot that is not empty, oldest first, with its age in slots."""
        number = steady_us() // SLOT_US
        return [(number - slot.number, slot.spread) for slot in self._slots if slot.late]


def _spread(late: Counter[int], worst_us: int) -> Spread:
    total = late.total()
    wanted = [-(-total * 50 // 100), -(-total * 99 // 100)]
    values: list[int] = []
    so_far = 0
    for late_us in sorted(late):
        so_far += late[late_us]
        while len(values) < len(wanted) and so_far >= wanted[len(values)]:
            values.append(late_us)
    return Spread(total, values[0], values[1], worst_us)
