"""Ordered receives, driven at random and compared with a small model, through restarts.

A shard is a queue or the group's retry queue. ``MODEL_EXAMPLES`` works as in ``test_model``.
"""

from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from mocketmq.broker.consuming.receiver import InFlightMessage
from tests.property.machine import Machine, runs
from tests.support.brokers import GROUP, S, acknowledge, bodies, give_back, receive, running_broker, send

QUEUES = 3
RETRY = QUEUES
INVISIBLE_US = 5 * S
RETRY_DELAY_US = 1 * S


@dataclass(order=True)
class Record:
    number: int
    body: str = field(compare=False)
    until_us: int | None = field(default=None, compare=False)  # a consumer holds it until then
    is_met: bool = field(default=False, compare=False)  # delivered before


class Model:
    """Unsettled records of each shard, and parked retries by due time."""

    def __init__(self) -> None:
        self.now_us = 0
        self.numbers = count()
        self.shards: list[list[Record]] = [[] for _ in range(QUEUES + 1)]
        self.parked: list[tuple[int, int, str]] = []

    def add(self, shard: int, body: str) -> None:
        self.shards[shard].append(Record(next(self.numbers), body))

    def receive(self, limit: int) -> list[str]:
        free = [shard for shard in self.shards if not any(record.until_us for record in shard)]
        again = sorted(record for shard in free for record in shard if record.is_met)
        fresh = sorted(record for shard in free if not any(r.is_met for r in shard) for record in shard)
        for record in (given := [*again, *fresh][:limit]):
            record.until_us, record.is_met = self.now_us + INVISIBLE_US, True
        return [record.body for record in given]

    def settle(self, body: str) -> bool:
        for shard in self.shards:
            for record in shard:
                if record.body == body and record.until_us:
                    shard.remove(record)
                    return True
        return False

    def move(self, by_us: int) -> None:
        self.now_us += by_us
        due = sorted(parked for parked in self.parked if parked[0] <= self.now_us)
        for parked in due:
            self.parked.remove(parked)
            self.add(RETRY, parked[2])
        for shard in self.shards:
            for record in shard:
                if record.until_us and record.until_us <= self.now_us:
                    record.until_us = None


class OrderedMachine(Machine):
    """Each rule acts on both sides."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.sent = count()
        self.held: dict[str, InFlightMessage] = {}  # the newest receipt of each body

    @initialize()
    def start(self) -> None:
        self.open()
        self.do(self.broker.registry.groups.put(GROUP, 1_000, 1))

    def open(self) -> None:
        context = running_broker(self.directory.name, topic_queues=QUEUES)
        self.broker = self.do(self.running.enter_async_context(context))

    @rule(queue=st.integers(0, QUEUES - 1), copies=st.integers(1, 4))
    def send(self, queue: int, copies: int) -> None:
        for _ in range(copies):
            body = str(next(self.sent))
            self.do(send(self.broker, body, queue=queue))
            self.model.add(queue, body)

    @rule(limit=st.integers(1, 6))
    def receive(self, limit: int) -> None:
        taken = self.do(receive(self.broker, limit, invisible_us=INVISIBLE_US, ordered=True))
        assert bodies(taken) == self.model.receive(limit)
        self.held |= dict(zip(bodies(taken), taken, strict=True))

    @precondition(lambda self: self.held)
    @rule(index=st.integers(0), is_acknowledged=st.booleans())
    def settle(self, index: int, is_acknowledged: bool) -> None:
        body = list(self.held)[index % len(self.held)]
        taken = [self.held.pop(body)]
        step = acknowledge(self.broker, taken) if is_acknowledged else give_back(self.broker, taken, 1)
        is_valid = self.model.settle(body)
        assert len(self.do(step).done) == is_valid
        if is_valid and not is_acknowledged:
            parked = (self.model.now_us + RETRY_DELAY_US, next(self.model.numbers), body)
            self.model.parked.append(parked)

    @rule(by_us=st.sampled_from([1, S // 2, 1 * S, INVISIBLE_US - 1, INVISIBLE_US]))
    def move(self, by_us: int) -> None:
        self.do(self.broker.mover.advance(by_us))
        self.model.move(by_us)

    @rule()
    def restart(self) -> None:
        self.do(self.running.aclose())
        self.open()
        self.do(self.broker.mover.advance(0))


@pytest.mark.parametrize("examples", [10, pytest.param(50, marks=pytest.mark.slow)])
def test_ordered_group_matches_the_model(examples: int) -> None:
    run_state_machine_as_test(OrderedMachine, settings=runs(examples))
