"""With random sends, cancels, clock moves and restarts, each scheme behaves like a sorted list."""

from functools import partial
from unittest import mock

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from mocketmq.clock import Clock
from mocketmq.message.message import Message
from mocketmq.message.properties import TIMER_DELAY_MS, UNIQ_KEY
from mocketmq.settings import TimedSchemeName
from tests.property.machine import Machine, runs
from tests.support.brokers import TOPIC, S, bodies, running_broker, visible
from tests.support.second_directories import HOUR_MS, MS, WALL_US

delays_ms = st.one_of(
    st.sampled_from([1, 999, 1_000, 599_999, 600_000, 600_001, HOUR_MS]),
    st.integers(1, 70 * HOUR_MS),
)
moves_us = st.one_of(st.sampled_from([1, S, 600 * S]), st.integers(0, 9 * 3_600 * S))
which = st.integers(0)


class SchemeMachine(Machine):
    """Models a scheme: ``waiting`` has due time, arrival number and body; ``visible`` delivered bodies."""

    scheme: TimedSchemeName

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[int, int, str]] = []
        self.visible: list[str] = []
        self.sent = 0

    @initialize()
    def start(self) -> None:
        context = running_broker(self.directory.name, timed_scheme=self.scheme, topic_queues=1)
        with mock.patch("mocketmq.broker.building.Clock", partial(Clock, wall=lambda: WALL_US)):
            self.broker = self.do(self.running.enter_async_context(context))

    @rule(delay_ms=delays_ms, copies=st.integers(1, 3))
    def send(self, delay_ms: int, copies: int) -> None:
        batch = []
        due_us = -(-(self.broker.clock.now_us() + delay_ms * MS) // MS) * MS
        for _ in range(copies):
            body, self.sent = str(self.sent), self.sent + 1
            properties = {TIMER_DELAY_MS: str(delay_ms), UNIQ_KEY: f"key-{body}"}
            batch.append(Message(TOPIC, body.encode(), properties))
            self.waiting.append((due_us, self.sent, body))
        self.do(self.broker.sender.send_batch(batch))

    @rule(by_us=moves_us)
    def move(self, by_us: int) -> None:
        due = sorted(each for each in self.waiting if each[0] <= self.broker.clock.now_us() + by_us)
        assert self.do(self.broker.mover.advance(by_us)).fired == len(due)
        self.deliver(due)

    @precondition(lambda self: self.waiting)
    @rule()
    def move_to_the_next(self) -> None:
        first_us = min(self.waiting)[0]
        due = sorted(each for each in self.waiting if each[0] == first_us)
        assert self.broker.schemes.next_delivery_us() == first_us
        self.do(self.broker.mover.advance(first_us - self.broker.clock.now_us()))
        self.deliver(due)

    @precondition(lambda self: self.waiting)
    @rule(index=which)
    def cancel(self, index: int) -> None:
        each = self.waiting.pop(index % len(self.waiting))
        self.do(self.broker.pending.cancel(f"key-{each[2]}"))

    @precondition(lambda self: self.waiting)
    @rule(index=which)
    def force(self, index: int) -> None:
        each = self.waiting[index % len(self.waiting)]
        self.do(self.broker.pending.deliver_now(f"key-{each[2]}"))
        self.deliver([each])

    @rule()
    def restart(self) -> None:
        self.do(self.running.aclose())
        self.start()
        self.do(self.broker.mover.advance(0))  # refuses the delivered messages that a quick stop left

    @rule()
    def reset(self) -> None:
        self.do(self.broker.reset.all())
        self.waiting, self.visible = [], []

    def deliver(self, due: list[tuple[int, int, str]]) -> None:
        for each in due:
            self.waiting.remove(each)
            self.visible.append(each[2])

    @invariant()
    def the_same_waits(self) -> None:
        found = self.do(self.broker.pending.list(limit=1_000))
        assert [(one.message.due_us, one.message.body.decode()) for one in found] == [
            (due_us, body) for due_us, _, body in sorted(self.waiting, key=lambda each: each[1])
        ]
        assert self.broker.schemes.pending == len(self.waiting)
        assert self.broker.schemes.next_delivery_us() == min(self.waiting, default=[None])[0]

    @invariant()
    def the_same_is_visible(self) -> None:
        if self.broker.registry.topics.find_topic(TOPIC):
            assert bodies(self.do(visible(self.broker))) == self.visible
        assert self.broker.schemes.early == 0


@pytest.mark.parametrize("examples", [4, pytest.param(30, marks=pytest.mark.slow)])
def test_a_scheme_behaves_like_a_sorted_list(scheme: TimedSchemeName, examples: int) -> None:
    machine = type("Machine", (SchemeMachine,), {"scheme": scheme})
    run_state_machine_as_test(machine, settings=runs(examples))
