"""A minimal model of a broker's behaviour.

It has one topic, manual time and profile exact. Records are numbered in storing order; a message is
identified by its body, even after retries. LookupError means that the broker must refuse, and change nothing.
"""

from dataclasses import dataclass, field
from itertools import count


@dataclass
class Record:
    number: int
    body: str
    tag: str
    only_for: str | None  # only one group sees a retry
    given_back: int  # number of times
    due_us: int = 0
    is_timed: bool = False  # has a requested instant, not a level


@dataclass
class Take:
    record: Record
    times: int = 0
    until_us: int | None = None  # None if it can be received again


@dataclass
class Group:
    name: str
    tag: str  # tag of its subscription, which never excludes retries; empty for all messages
    max_retries: int
    seen: int = -1  # number of the last record that it received
    takes: dict[int, Take] = field(default_factory=dict)  # unsettled takes, by number
    dead: list[str] = field(default_factory=list)

    def wants(self, record: Record) -> bool:
        return record.only_for == self.name or (not record.only_for and self.tag in ("", record.tag))


class Model:
    def __init__(self, delays_us: tuple[int, ...], groups: list[Group], now_us: int) -> None:
        self.delays_us, self.now_us, self.numbers = delays_us, now_us, count()
        self.groups = {group.name: group for group in groups}
        self.parked, self.visible = list[Record](), list[Record]()

    def send(self, body: str, tag: str, level: int, only_for: str | None = None, given_back: int = 0) -> None:
        record = Record(next(self.numbers), body, tag, only_for, given_back)
        if level > 0:
            record.due_us = self.now_us + self.delays_us[min(level, len(self.delays_us)) - 1]
        (self.parked if level > 0 else self.visible).append(record)

    def send_at(self, body: str, tag: str, due_us: int) -> None:
        if due_us <= self.now_us:
            self.send(body, tag, 0)
        else:
            due_us += -due_us % 1_000  # whole milliseconds, never early
            self.parked.append(Record(next(self.numbers), body, tag, None, 0, due_us, is_timed=True))

    def pending(self) -> list[Record]:  # levels before instants, each in order of arrival
        return sorted(self.parked, key=lambda record: record.is_timed)

    def find_parked(self, body: str) -> Record:  # the oldest, if several groups are retrying it
        return {record.body: record for record in reversed(self.parked)}[body]

    def cancel(self, body: str) -> None:
        self.parked.remove(self.find_parked(body))

    def deliver(self, record: Record) -> None:
        self.parked.remove(record)
        record.number = next(self.numbers)
        self.visible.append(record)

    def next_due_us(self) -> int | None:
        return min((record.due_us for record in self.parked), default=None)

    def move_to(self, instant_us: int) -> int:  # returns the number of messages that became visible
        due = [record for record in self.parked if record.due_us <= instant_us]
        for record in sorted(due, key=lambda record: (record.due_us, record.number)):
            self.deliver(record)
        for group in self.groups.values():
            over = [take for take in group.takes.values() if take.until_us and take.until_us <= instant_us]
            for take in sorted(over, key=lambda take: (take.until_us, take.record.number)):
                take.until_us = None
                if take.record.given_back + take.times > group.max_retries:
                    self.bury(group, take.record)
        self.now_us = instant_us
        return len(due)

    def receive(self, name: str, limit: int, invisible_us: int) -> list[Take]:
        """Receive redeliveries before new messages, both in storing order."""
        group = self.groups[name]
        again = [take for _, take in sorted(group.takes.items()) if not take.until_us]
        new = [Take(record) for record in self.visible if record.number > group.seen and group.wants(record)]
        for take in (taken := [*again, *new][:limit]):
            take.times, take.until_us = take.times + 1, self.now_us + invisible_us
            group.takes[take.record.number] = take
            group.seen = max(group.seen, take.record.number)
        return taken

    def open_take(self, name: str, number: int, times: int) -> Take:
        take = self.groups[name].takes[number]
        if take.times != times or not take.until_us or take.until_us <= self.now_us:
            raise LookupError
        return take

    def acknowledge(self, name: str, number: int, times: int) -> None:
        self.open_take(name, number, times)
        del self.groups[name].takes[number]

    def extend(self, name: str, number: int, times: int, invisible_us: int) -> None:
        self.open_take(name, number, times).until_us = self.now_us + invisible_us

    def give_back(self, name: str, number: int, times: int, level: int) -> None:
        record, group = self.open_take(name, number, times).record, self.groups[name]
        if level < 0 or record.given_back >= group.max_retries:
            self.bury(group, record)
        else:
            del group.takes[number]
            self.send(record.body, record.tag, level or 3 + record.given_back, name, record.given_back + 1)

    def bury(self, group: Group, record: Record) -> None:
        del group.takes[record.number]
        group.dead.append(record.body)

    def reset(self) -> None:
        self.parked, self.visible = [], []
        for group in self.groups.values():
            group.takes, group.dead = {}, []
