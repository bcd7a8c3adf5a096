"""Statistics: counts of messages put and got, in total and in the last minute, hour and day.

Rates use real time, because they show how busy the broker is. An emulated clock that stands still or jumps
would make the rates infinite or zero. Sends and receives only increase totals, which a chore samples. The
increase in a period is the difference between the current totals and a sample. All counts start at 0 with the
broker.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from mocketmq.broker.registry.traffic import Traffic
from mocketmq.clock import US_PER_MS, US_PER_S, steady_us, wall_us
from mocketmq.message.broker_share import position_of
from mocketmq.message.message import StoredMessage
from mocketmq.store.chore import Chore
from mocketmq.store.queue import Queue

TURN_S: Final = 10.0
"""Real time between two samples of the totals, as in RocketMQ (StatsItemSet)."""
MINUTE_US: Final = 60 * US_PER_S
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US
STEPS: Final = 6
"""Number of samples in each of a minute, an hour and a day. A window may be longer by one step."""

PUT_MS: Final = (1, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
"""Bounds of the histogram of times to store a message, in milliseconds, as in StoreStatsService.java."""


class Totals(NamedTuple):
    """Sums since the start: messages, ``size`` of their bodies in bytes, and number of ``calls``."""

    messages: int = 0
    size: int = 0
    calls: int = 0
    took_us: int = 0


class Window(NamedTuple):
    """The increase of totals within the last ``elapsed_us``."""

    added: Totals
    elapsed_us: int

    def per_second(self, amount: int) -> float:
        """The rate per second for an increase of ``amount``."""
        return amount * US_PER_S / self.elapsed_us


class Meter:
    """A counter that samples its totals at intervals if they have changed."""

    __slots__ = ("_day", "_hour", "_minute", "calls", "messages", "size", "took_us")

    def __init__(self) -> None:
        self.messages = self.size = self.calls = self.took_us = 0
        self._minute: deque[tuple[int, Totals]] = deque()
        self._hour: deque[tuple[int, Totals]] = deque()
        self._day: deque[tuple[int, Totals]] = deque()

    @property
    def totals(self) -> Totals:
        """The current totals."""
        return Totals(self.messages, self.size, self.calls, self.took_us)

    def count_calls(self, messages: int, size: int, calls: int = 1, took_us: int = 0) -> None:
        """Count one or more calls."""
        self.messages += messages
        self.size += size
        self.calls += calls
        self.took_us += took_us

    def note(self, now_us: int, turn: int) -> None:
        """Sample the totals: each turn for the minute, once in many turns for the hour and the day."""
        for notes, span_us in self._spans():
            is_due = turn % (span_us // MINUTE_US) == 0
            if is_due and self.calls != (notes[-1][1].calls if notes else 0):
                notes.append((now_us, self.totals))
            while len(notes) > 1 and notes[1][0] <= now_us - span_us:
                notes.popleft()

    def window(self, span_us: int, now_us: int, started_us: int) -> Window:
        """The increase in the last minute, hour or day, or since the start if it was later."""
        notes, noted_us = next(spans for spans in self._spans() if span_us <= spans[1])
        since_us = now_us - span_us
        before = Totals()
        for at_us, totals in notes:
            if at_us > since_us:
                since_us = min(since_us, at_us - noted_us // STEPS)
                break
            before = totals
        added = Totals(*(now - then for now, then in zip(self.totals, before, strict=True)))
        return Window(added, max(now_us - max(since_us, started_us), US_PER_S))

    def _spans(self) -> Iterable[tuple[deque[tuple[int, Totals]], int]]:
        return ((self._minute, MINUTE_US), (self._hour, HOUR_US), (self._day, DAY_US))


class DailyTotals(NamedTuple):
    """The numbers of messages put and got up to each of the last two midnights, UTC."""

    put_yesterday: int = 0
    put_today: int = 0
    got_yesterday: int = 0
    got_today: int = 0


class Statistics(Chore):
    """All meters. ``found`` and ``missed`` count queue reads; ``put_times`` counts by :data:`PUT_MS`.

    ``traffics`` has the traffic of each broker of the cluster; ``only_traffic`` is that of the only broker,
    otherwise None. All other meters count for the cluster as a whole.
    """

    name = "statistics"
    interval_s = TURN_S

    def __init__(
        self, ticks: Callable[[], int] = steady_us, wall: Callable[[], int] = wall_us, brokers: int = 1
    ) -> None:
        super().__init__()
        self.ticks = ticks
        self.put, self.got = Meter(), Meter()
        self.found, self.missed = Meter(), Meter()
        self.topics: dict[str, Meter] = {}  # puts
        self.groups: dict[tuple[str, str], Meter] = {}  # gets, by topic and group
        self.given_back: dict[tuple[str, str], Meter] = {}
        self.fired = Meter()  # messages of the timed scheme that became visible
        self.traffics = [Traffic() for _ in range(brokers)]
        self.only_traffic = self.traffics[0] if brokers == 1 else None
        self.daily = DailyTotals()
        self.put_times = [0] * (len(PUT_MS) + 1)
        self.longest_put_us = self.longest_read_us = 0
        self._wall = wall
        self.started_wall_us = wall()
        self._started_us = ticks()
        self._today = self.started_wall_us // DAY_US
        self._turns = 0

    # Counting

    def stored(self, appended: Iterable[tuple[Queue, int, int]], took_us: int) -> None:
        """Count the messages and bytes that one transaction appended to queues."""
        total = 0
        for queue, messages, size in appended:
            meter = self.topics.get(queue.topic)
            if meter is None:
                meter = self.topics[queue.topic] = Meter()
            meter.count_calls(messages, size, messages)
            self.put.count_calls(messages, size, messages)
            total += messages
        self.put_times[bisect_right(PUT_MS, took_us // US_PER_MS)] += total
        self.longest_put_us = max(self.longest_put_us, took_us)

    def traffic_of(self, queue: Queue) -> Traffic:
        """The traffic of the broker that has the queue."""
        return (
            self.only_traffic or self.traffics[position_of(queue.topic, queue.queue_id, len(self.traffics))]
        )

    def delivered(self, queue: Queue, level: int | None, size: int, messages: int) -> None:
        """Count delayed messages of this size that became visible.

        ``level`` is None if the timed scheme kept them.
        """
        if level is None:
            self.fired.count_calls(messages, 0, messages)
        self.traffic_of(queue).count_delivered(queue.topic, level, size, messages)

    def read(self, messages: int, took_us: int) -> None:
        """Count a read of a queue that found this many messages."""
        (self.found if messages else self.missed).count_calls(messages, 0)
        self.longest_read_us = max(self.longest_read_us, took_us)

    def given(self, topic: str, group: str, messages: Collection[StoredMessage], took_us: int) -> None:
        """Count the messages of a topic that a group got."""
        if messages:
            size = sum(len(message.body) for message in messages)
            self.groups.setdefault((topic, group), Meter()).count_calls(len(messages), size, 1, took_us)
            self.got.count_calls(len(messages), size)

    def gave_back(self, topic: str, group: str) -> None:
        """Count a message of a topic that a group gave back."""
        self.given_back.setdefault((topic, group), Meter()).count_calls(1, 0)

    def forget_topic(self, topic: str) -> None:
        """Drop the meters of a deleted topic."""
        self.topics.pop(topic, None)
        for traffic in self.traffics:
            traffic.forget_topic(topic)
        self._forget(lambda key: key[0] == topic)

    def forget_group(self, group: str) -> None:
        """Drop the meters of a deleted group."""
        for traffic in self.traffics:
            traffic.forget_group(group)
        self._forget(lambda key: key[1] == group)

    def _forget(self, is_gone: Callable[[tuple[str, str]], bool]) -> None:
        for meters in (self.groups, self.given_back):
            for key in [key for key in meters if is_gone(key)]:
                del meters[key]

    # Reading

    def window(self, meter: Meter, span_us: int) -> Window:
        """The increase of a meter in the last ``span_us``, up to a day."""
        return meter.window(span_us, self.ticks(), self._started_us)

    @property
    def age_us(self) -> int:
        """The time since the counts started."""
        return self.ticks() - self._started_us

    async def turn(self) -> None:
        """Sample the totals of every meter."""
        now_us, today = self.ticks(), self._wall() // DAY_US
        for meter in (self.put, self.got, self.found, self.missed, self.fired):
            meter.note(now_us, self._turns)
        for meters in (self.topics, self.groups, self.given_back):
            for meter in meters.values():
                meter.note(now_us, self._turns)
        self._turns += 1
        if today != self._today:
            self._today = today
            put, got = self.put.messages, self.got.messages
            self.daily = DailyTotals(self.daily.put_today, put, self.daily.got_today, got)
