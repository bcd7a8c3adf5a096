"""A group consumes in order from brokers with random lives: no message before those ahead of it in its queue.

A crash or a promotion that loses the last seconds undoes their acknowledgements, and nothing else.
"""

from collections import defaultdict

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from mocketmq.broker.consuming.receiver import InFlightMessage
from tests.property.machine import runs
from tests.property.test_broker_lives import BROKERS, ClusterMachine
from tests.support.brokers import GROUP, S, acknowledge, receive, visible

MANY = 256
"""Number of messages that a receive may return at most, which is more than there are."""


class OrderedClusterMachine(ClusterMachine):
    """Adds a group to the brokers, whose receives are compared with what it has settled."""

    def __init__(self) -> None:
        super().__init__()
        self.in_flight: dict[str, InFlightMessage] = {}  # the newest receipt of each message
        self.settled_us: dict[str, int] = {}

    def open(self) -> None:
        super().open()
        self.do(self.broker.registry.groups.put(GROUP, 1_000, 1))

    @rule(limit=st.sampled_from([1, 2, 4, MANY]), invisible_us=st.sampled_from([S, 30 * S, 600 * S]))
    def receive_in_order(self, limit: int, invisible_us: int) -> None:
        self._forget_lost()
        taken = self.do(receive(self.broker, limit, invisible_us=invisible_us, ordered=True))
        given: dict[int, list[str]] = defaultdict(list)
        for one in taken:
            given[one.message.queue_key].append(one.message.body.decode())
        for key, bodies in self._queues().items():
            unsettled = [body for body in bodies if body not in self.settled_us]
            if any(self._is_in_flight(body) for body in unsettled):
                assert not given[key]
            else:
                assert given[key] == unsettled[: len(given[key])]
                assert given[key] or not unsettled or len(taken) == limit
        self.in_flight |= {one.message.body.decode(): one for one in taken}

    def _queues(self) -> dict[int, list[str]]:
        """The messages of each queue, in order."""
        queues: dict[int, list[str]] = defaultdict(list)
        for one in sorted(self.do(visible(self.broker)), key=lambda one: one.queue_offset):
            queues[one.queue_key].append(one.body.decode())
        return queues

    def _is_in_flight(self, body: str) -> bool:
        return body in self.in_flight and self.now_us < self.in_flight[body].visible_us

    @precondition(lambda self: self.in_flight)
    @rule(index=st.integers(0))
    def acknowledge(self, index: int) -> None:
        self._forget_lost()
        found = [body for body in self.in_flight if self.is_up[self.sent[body].queue_id % BROKERS]]
        if not found:
            return
        body = found[index % len(found)]
        is_valid = self._is_in_flight(body)
        assert len(self.do(acknowledge(self.broker, [self.in_flight.pop(body)])).done) == is_valid
        if is_valid:
            self.settled_us[body] = self.now_us

    def _lose(self, index: int, since_us: int) -> int:
        lost = super()._lose(index, since_us)
        self.settled_us = {
            body: at_us
            for body, at_us in self.settled_us.items()
            if at_us <= since_us or self.sent[body].queue_id % BROKERS != index
        }
        self._forget_lost()
        return lost

    def _forget_lost(self) -> None:
        """Forget messages that are lost or pending again."""
        for known in (self.in_flight, self.settled_us):
            for body in [body for body in known if body not in self.sent or not self.sent[body].is_delivered]:
                known.pop(body)


@pytest.mark.parametrize("examples", [8, pytest.param(60, marks=pytest.mark.slow)])
def test_a_group_in_order_matches_the_model(examples: int) -> None:
    run_state_machine_as_test(OrderedClusterMachine, settings=runs(examples))
