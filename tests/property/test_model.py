"""Drives a real broker at random, and compares it with the model after each step, through restarts.

``MODEL_EXAMPLES=1000`` makes that many random runs; without it, a few fixed runs are made.
"""

import sqlite3
from collections.abc import Awaitable
from contextlib import closing
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from mocketmq.broker.consuming.settler import Settled
from mocketmq.clock import US_PER_MS, US_PER_S, Clock
from mocketmq.errors import RefusedError
from mocketmq.message.message import Message
from mocketmq.message.names import dead_letter_topic
from mocketmq.message.properties import (
    DELAY,
    START_DELIVER_TIME,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    UNIQ_KEY,
)
from mocketmq.schedule.level_table import LevelTable
from mocketmq.store.database import FILE_NAME
from tests.property.machine import Machine, runs
from tests.property.model import Group, Model
from tests.support.brokers import TOPIC, bodies, receive, running_broker, visible

LEVELS = LevelTable.parse("1s 2s 5s 10s 1m")
ASIDE_US = 7
"""The clock stands beside the whole milliseconds at which timed messages are due, and so do the due times
of levels: which of the two schemes is first at one instant is not promised."""
WALL_US = 1_700_000_000 * US_PER_S
"""Time of the stopped wall clock, from which clients compute their start-deliver times."""

groups = st.sampled_from(["everything", "only-a"])
levels = st.integers(0, LEVELS.highest + 1)
timers = st.one_of(
    st.tuples(
        st.sampled_from([START_DELIVER_TIME, TIMER_DELIVER_MS, TIMER_DELAY_MS]),
        st.one_of(st.sampled_from([-1, 0, 1, 1_000, 1_999, 2_000]), st.integers(-1_000, 70_000)),
    ),
    st.tuples(st.just(TIMER_DELAY_SEC), st.integers(-1, 70)),
)
"""A property with a due time, and its distance from now in the property's own unit."""
invisible_us = st.sampled_from([1, US_PER_S, 5 * US_PER_S, 30 * US_PER_S])
which = st.integers(0)
moves_us = st.one_of(
    st.builds(int.__add__, st.sampled_from(LEVELS.delays_us), st.integers(-1, 1)),
    st.integers(0, 120 * US_PER_S),
)


class Handed:
    """A receipt as both sides know it; used receipts are kept, because they must be refused."""

    def __init__(self, group: str, number: int, times: int, handle: str) -> None:
        self.group, self.number, self.times, self.handle = group, number, times, handle


class BrokerMachine(Machine):
    """Each rule acts on both sides, and the invariants compare their visible state."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []
        self.handed: list[Handed] = []

    @initialize()
    def start(self) -> None:
        self.open()
        own = [Group("everything", "", 2), Group("only-a", "A", 1)]
        for group in own:
            self.do(self.broker.registry.groups.put(group.name, group.max_retries, 1))
        self.do(self.broker.mover.advance(ASIDE_US))
        self.model = Model(LEVELS.delays_us, own, self.broker.clock.now_us())

    def open(self) -> None:
        context = running_broker(self.directory.name, levels=LEVELS.text, topic_queues=3)
        with mock.patch("mocketmq.broker.building.Clock", partial(Clock, wall=lambda: WALL_US)):
            self.broker = self.do(self.running.enter_async_context(context))

    def check_what_is_left(self) -> None:
        self.check_ledger()

    # Producers

    @rule(level=levels, tag=st.sampled_from("AB"), copies=st.integers(1, 3))
    def send(self, level: int, tag: str, copies: int) -> None:
        for _ in range(copies):
            body = str(len(self.sent))
            self.sent.append(body)
            properties = {DELAY: str(level), TAGS: tag, UNIQ_KEY: f"key-{body}"}
            self.do(self.broker.sender.send(Message(TOPIC, body.encode(), properties)))
            self.model.send(body, tag, level)

    @rule(
        timer=timers, level=st.sampled_from([0, 0, 0, 1]), tag=st.sampled_from("AB"), copies=st.integers(1, 3)
    )
    def send_timed(self, timer: tuple[str, int], level: int, tag: str, copies: int) -> None:
        name, ahead = timer
        ahead_us = ahead * (US_PER_S if name == TIMER_DELAY_SEC else US_PER_MS)
        value = ahead + WALL_US // US_PER_MS if name in (START_DELIVER_TIME, TIMER_DELIVER_MS) else ahead
        due_us = self.model.now_us + ahead_us
        if name in (START_DELIVER_TIME, TIMER_DELIVER_MS):  # the clock may stand between two milliseconds
            due_us += -due_us % US_PER_MS
        batch = []
        for _ in range(copies):
            body = str(len(self.sent))
            self.sent.append(body)
            properties = {DELAY: str(level), name: str(value), TAGS: tag, UNIQ_KEY: f"key-{body}"}
            batch.append(Message(TOPIC, body.encode(), properties))
            if level:  # a level has priority
                self.model.send(body, tag, level)
            else:
                self.model.send_at(body, tag, due_us)
        self.do(self.broker.sender.send_batch(batch))

    # Consumers

    @rule(group=groups, limit=st.integers(1, 5), invisible=invisible_us)
    def receive(self, group: str, limit: int, invisible: int) -> None:
        tags = self.model.groups[group].tag or "*"
        found = self.do(receive(self.broker, limit, group=group, invisible_us=invisible, tags=tags))
        expected = self.model.receive(group, limit, invisible)
        assert [(m.message.body.decode(), m.times, m.message.reconsume_times) for m in found] == [
            (take.record.body, take.times, take.record.given_back) for take in expected
        ]
        self.handed += [
            Handed(group, take.record.number, take.times, one.handle)
            for one, take in zip(found, expected, strict=True)
        ]

    def settle(self, step: Awaitable[Settled], is_refused: bool) -> None:
        settled = self.do(step)
        assert (len(settled.done), len(settled.failed)) == ((0, 1) if is_refused else (1, 0))

    @precondition(lambda self: self.handed)
    @rule(index=which)
    def acknowledge(self, index: int) -> None:
        one = self.handed[index % len(self.handed)]
        is_refused = refuses(self.model.acknowledge, one.group, one.number, one.times)
        self.settle(self.broker.settler.acknowledge(one.group, [one.handle]), is_refused)

    @precondition(lambda self: self.handed)
    @rule(index=which, level=st.integers(-1, LEVELS.highest))
    def give_back(self, index: int, level: int) -> None:
        one = self.handed[index % len(self.handed)]
        is_refused = refuses(self.model.give_back, one.group, one.number, one.times, level)
        self.settle(self.broker.settler.give_back(one.group, [one.handle], level), is_refused)

    @precondition(lambda self: self.handed)
    @rule(index=which, invisible=st.one_of(st.just(0), invisible_us))
    def extend(self, index: int, invisible: int) -> None:
        one = self.handed[index % len(self.handed)]
        is_refused = refuses(self.model.extend, one.group, one.number, one.times, invisible)
        self.settle(self.broker.settler.extend(one.group, [one.handle], invisible), is_refused)
        self.move_by(0)  # undelayed messages become visible only when the timer has run

    # Testers

    @rule(by_us=moves_us)
    def move_by(self, by_us: int) -> None:
        move = self.do(self.broker.mover.advance(by_us))
        assert move.fired == self.model.move_to(self.model.now_us + by_us)
        assert (move.now_us, move.next_due_us) == (self.model.now_us, self.model.next_due_us())

    @rule()
    def move_to_next(self) -> None:
        due_us = self.model.next_due_us()
        if due_us is None:
            with pytest.raises(RefusedError):
                self.do(self.broker.mover.move_to_next())
            return
        move = self.do(self.broker.mover.move_to_next())
        assert move.fired == self.model.move_to(due_us)
        assert move.now_us == due_us
        self.move_by(ASIDE_US)

    @rule(by_us=st.integers(1, US_PER_S))
    def move_back(self, by_us: int) -> None:
        with pytest.raises(RefusedError):
            self.do(self.broker.mover.advance(-by_us))

    @precondition(lambda self: self.sent)
    @rule(index=which)
    def cancel(self, index: int) -> None:
        body = self.sent[index % len(self.sent)]
        is_refused = refuses(self.model.cancel, body)
        self.intervene(self.broker.pending.cancel(f"key-{body}"), is_refused)

    @precondition(lambda self: self.sent)
    @rule(index=which)
    def deliver_now(self, index: int) -> None:
        body = self.sent[index % len(self.sent)]
        is_refused = refuses(lambda: self.model.deliver(self.model.find_parked(body)))
        self.intervene(self.broker.pending.deliver_now(f"key-{body}"), is_refused)

    def intervene(self, step: Awaitable[object], is_refused: bool) -> None:
        if is_refused:
            with pytest.raises(RefusedError):
                self.do(step)
        else:
            self.do(step)

    @rule()
    def restart(self) -> None:
        self.do(self.running.aclose())
        self.open()
        self.move_by(0)

    @precondition(lambda self: len(self.sent) > 10)
    @rule(is_all=st.booleans())
    def reset(self, is_all: bool) -> None:
        self.check_ledger()
        self.do(self.broker.reset.all() if is_all else self.broker.reset.topic(TOPIC))
        self.model.reset()

    # Visible state

    @invariant()
    def time_is_the_same(self) -> None:
        assert self.broker.clock.now_us() == self.model.now_us

    @invariant()
    def the_same_is_pending(self) -> None:
        pending = self.do(self.broker.pending.list(limit=1_000_000))
        assert [(m.message.body.decode(), m.message.due_us, m.level is None) for m in pending] == [
            (record.body, record.due_us, record.is_timed) for record in self.model.pending()
        ]
        assert self.broker.pending.count == len(self.model.parked)

    @invariant()
    def the_same_is_visible(self) -> None:
        if self.broker.registry.topics.find_topic(TOPIC):
            found = self.do(visible(self.broker))
            assert bodies(found) == [r.body for r in self.model.visible if r.only_for is None]

    @invariant()
    def the_same_is_dead(self) -> None:
        for group in self.model.groups.values():
            if self.broker.registry.topics.find_topic(dead_letter_topic(group.name)):
                found = self.do(visible(self.broker, dead_letter_topic(group.name)))
                assert bodies(found) == group.dead

    def check_ledger(self) -> None:
        with closing(sqlite3.connect(Path(self.directory.name) / FILE_NAME)) as database:
            assert not database.execute(
                "SELECT * FROM deliveries WHERE delivered_us <> due_us AND NOT forced"
            ).fetchall()
            assert not database.execute(
                "SELECT parked_offset FROM deliveries GROUP BY parked_offset HAVING count(*) > 1"
            ).fetchall()


def refuses(act: object, *args: object) -> bool:
    """Apply the step to the model, and return whether the broker must refuse it."""
    assert callable(act)
    try:
        act(*args)
    except LookupError:
        return True
    return False


@pytest.mark.parametrize("examples", [15, pytest.param(60, marks=pytest.mark.slow)])
def test_a_broker_matches_the_model(examples: int) -> None:
    run_state_machine_as_test(BrokerMachine, settings=runs(examples))
