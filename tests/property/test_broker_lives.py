"""Random lives of three brokers under load: nothing is early, each message arrives once, nothing is lost.

Crashes lose what they are told to: messages that were sent in a time before, and nothing else. Promotions
lose what the slave does not have.
"""

from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test

from mocketmq.broker.registry.brokers import CutOff
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.errors import BrokerDownError, BrokerStateError, EmulatorError, NoPermissionError
from mocketmq.faults.rule import FaultRule
from mocketmq.message.broker_share import broker_names
from mocketmq.message.message import Message
from mocketmq.message.properties import DELAY
from tests.property.machine import Machine, runs
from tests.support.brokers import TOPIC, running_broker, visible

BROKERS, QUEUES = 3, 2
LEVELS = "1s 5s 1m"
DELAYS_US = (US_PER_S, 5 * US_PER_S, 60 * US_PER_S)
ROUTE_US = 120 * US_PER_S

indexes = st.integers(0, BROKERS - 1)


class Expected:
    """An acknowledged message: its queue, when it was sent and is due, and when it was delivered."""

    def __init__(self, queue_id: int, sent_us: int, due_us: int) -> None:
        self.queue_id = queue_id
        self.sent_us = sent_us
        self.due_us = due_us
        self.delivered_us: int | None = None

    @property
    def is_delivered(self) -> bool:
        return self.delivered_us is not None


class ClusterMachine(Machine):
    """Compares each step with a model, in which a due message waits for its broker."""

    def __init__(self) -> None:
        super().__init__()
        self.now_us = 0
        self.sent: dict[str, Expected] = {}
        self.sends = 0
        self.is_up = [True] * BROKERS
        self.is_cut = [False] * BROKERS
        self.is_read_only = [False] * BROKERS
        self.silent_us: list[int | None] = [None] * BROKERS
        self.ended_us: list[int | None] = [None] * BROKERS
        self.has_slave = [True] * BROKERS
        self.lag_us = 0

    @initialize(lag_s=st.sampled_from([0, 5]))
    def start(self, lag_s: int) -> None:
        self.open()
        self.do(self.broker.registry.topics.put(TOPIC, QUEUES, QUEUES, 6))
        self.now_us = self.broker.clock.now_us()
        self.lag_us = lag_s * US_PER_S
        if lag_s:
            self.do(self.broker.faults.add_rule(FaultRule(do="replicate-late", by=f"{lag_s}s")))

    def open(self) -> None:
        context = running_broker(self.directory.name, levels=LEVELS, brokers=BROKERS, slaves=1)
        self.broker = self.do(self.running.enter_async_context(context))

    @rule(index=indexes, queue=st.integers(0, QUEUES - 1), level=st.integers(0, len(DELAYS_US)))
    def send(self, index: int, queue: int, level: int) -> None:
        delay_us = DELAYS_US[level - 1] if level else 0
        self._send(index, queue, delay_us, Message(TOPIC, properties={DELAY: str(level)}, body=b""))

    @rule(index=indexes, queue=st.integers(0, QUEUES - 1), delay_ms=st.integers(1, 70_000))
    def send_timed(self, index: int, queue: int, delay_ms: int) -> None:
        delay_us = delay_ms * US_PER_MS
        due_us = self.now_us + delay_us
        delay_us += -due_us % US_PER_MS  # rounded up to whole milliseconds
        self._send(index, queue, delay_us, Message(TOPIC, b"", {}, delay_us=delay_us))

    def _send(self, index: int, queue: int, delay_us: int, message: Message) -> None:
        message.queue_id = queue * BROKERS + index
        message.body = (body := str(self.sends)).encode()
        self.sends += 1
        if (refusal := self._refusal(index)) is not None:
            with pytest.raises(refusal):
                self.do(self.broker.sender.send(message))
        else:
            self.do(self.broker.sender.send(message))
            self.sent[body] = Expected(
                message.queue_id, self.now_us, self.now_us + delay_us if delay_us else 0
            )
        self._deliver()

    def _refusal(self, index: int) -> type[EmulatorError] | None:
        """Return the error with which the broker refuses a send, if any."""
        if not self.is_up[index] or self.is_cut[index]:
            return BrokerDownError
        return NoPermissionError if self.is_read_only[index] else None

    @rule(by_us=st.sampled_from([1, US_PER_S, 5 * US_PER_S, 30 * US_PER_S, 60 * US_PER_S, ROUTE_US]))
    def move(self, by_us: int) -> None:
        before_us = self.now_us
        self.do(self.broker.mover.advance(by_us))
        self.now_us += by_us
        self._deliver(before_us)

    @rule(index=indexes, is_crash=st.booleans(), loses_us=st.sampled_from([0, 0, 1, US_PER_S, 30 * US_PER_S]))
    def end(self, index: int, is_crash: bool, loses_us: int) -> None:
        lives, name = self.broker.broker_lives, broker_names(BROKERS)[index]
        if not self.is_up[index]:
            with pytest.raises(BrokerStateError):
                self.do(lives.crash(name, loses_us) if is_crash else lives.shut_down(name))
            return
        if is_crash:
            assert self.do(lives.crash(name, loses_us)).lost == self._lose(index, self.now_us - loses_us)
        else:
            self.do(lives.shut_down(name))
        silent_us = self.silent_us[index]
        self._heal(index, is_up=False)
        self.ended_us[index] = self.now_us
        if is_crash:
            self.silent_us[index] = self.now_us if silent_us is None else silent_us

    @rule(index=indexes)
    def promote(self, index: int) -> None:
        step = self.broker.broker_lives.promote(broker_names(BROKERS)[index])
        if not self.has_slave[index]:
            with pytest.raises(BrokerStateError):
                self.do(step)
            return
        ended_us = self.ended_us[index]
        end_us = self.now_us if ended_us is None else ended_us
        is_well = self.is_up[index] and not self.is_cut[index] and self.silent_us[index] is None
        assert self.do(step).lost == self._lose(index, end_us - self.lag_us)
        self._heal(index)
        self.has_slave[index] = is_well
        self._settle()

    def _lose(self, index: int, since_us: int) -> int:
        """Lose messages of the broker that were sent since, and undo deliveries. Return how many are lost."""
        own = [body for body, each in self.sent.items() if each.queue_id % BROKERS == index]
        lost = [body for body in own if self.sent[body].sent_us > since_us]
        for body in lost:
            del self.sent[body]
        for each in (self.sent[body] for body in own if body in self.sent):
            if each.delivered_us is not None and each.delivered_us > since_us:
                each.delivered_us = None
        return len(lost)

    def _heal(self, *indexes: int, is_up: bool = True) -> None:
        for index in indexes:
            self.is_up[index] = is_up
            self.is_cut[index] = self.is_read_only[index] = False
            self.silent_us[index] = self.ended_us[index] = None

    @rule(index=indexes, side=st.sampled_from(["clients", "name-servers"]))
    def cut_off(self, index: int, side: CutOff) -> None:
        if self._changes(index, self.broker.broker_lives.cut_off(broker_names(BROKERS)[index], side)):
            self.is_cut[index] |= side == "clients"
            if side == "name-servers" and self.silent_us[index] is None:
                self.silent_us[index] = self.now_us

    @rule(index=indexes)
    def reconnect(self, index: int) -> None:
        if self._changes(index, self.broker.broker_lives.reconnect(broker_names(BROKERS)[index])):
            self.is_cut[index], self.silent_us[index] = False, None

    @rule(index=indexes, is_read_only=st.booleans())
    def set_read_only(self, index: int, is_read_only: bool) -> None:
        lives, name = self.broker.broker_lives, broker_names(BROKERS)[index]
        if self._changes(index, lives.set_read_only(name, is_read_only=is_read_only)):
            self.is_read_only[index] = is_read_only

    @rule(index=indexes)
    def wipe(self, index: int) -> None:
        step = self.broker.broker_lives.wipe(broker_names(BROKERS)[index])
        if self._changes(index, step, while_up=False):
            self.sent = {body: each for body, each in self.sent.items() if each.queue_id % BROKERS != index}

    def _changes(self, index: int, step: Coroutine[Any, Any, object], *, while_up: bool = True) -> bool:
        """Take a step that is allowed while the broker is up, or only while it is down."""
        if self.is_up[index] is while_up:
            self.do(step)
            return True
        with pytest.raises(BrokerStateError):
            self.do(step)
        return False

    @rule(index=indexes)
    def begin(self, index: int) -> None:
        step = self.broker.broker_lives.start(broker_names(BROKERS)[index])
        if self.is_up[index] and self.has_slave[index]:
            with pytest.raises(BrokerStateError):
                self.do(step)
            return
        self.do(step)
        if not self.is_up[index]:
            self._heal(index)
        self.has_slave[index] = True
        self._settle()

    @rule()
    def restart(self) -> None:
        self.do(self.running.aclose())
        self.open()
        self._heal(*range(BROKERS))
        self.has_slave = [True] * BROKERS
        self._settle()

    def _settle(self) -> None:
        self.do(self.broker.mover.advance(0))
        self._deliver()

    def _deliver(self, since_us: int | None = None) -> None:
        for each in self.sent.values():
            if not each.is_delivered and each.due_us <= self.now_us and self.is_up[each.queue_id % BROKERS]:
                each.delivered_us = max(each.due_us, self.now_us if since_us is None else since_us)

    @invariant()
    def each_message_is_in_its_queue_once_it_is_due(self) -> None:
        if not self.sent:
            return
        topics = self.broker.registry.topics
        found = self.do(visible(self.broker))
        assert Counter((topics.queue(one.queue_key).queue_id, one.body.decode()) for one in found) == Counter(
            (each.queue_id, body) for body, each in self.sent.items() if each.is_delivered
        )
        assert all(one.store_us >= self.sent[one.body.decode()].due_us for one in found)
        assert self.broker.held.pending == sum(
            not each.is_delivered and each.due_us <= self.now_us for each in self.sent.values()
        )

    @invariant()
    def routes_name_brokers_that_are_heard_or_were_lately(self) -> None:
        expected = [
            is_up if silent_us is None else self.now_us < silent_us + ROUTE_US
            for is_up, silent_us in zip(self.is_up, self.silent_us, strict=True)
        ]
        brokers = self.broker.registry.brokers
        assert [brokers.is_routed(each) for each in brokers] == expected


@pytest.mark.parametrize("examples", [15, pytest.param(100, marks=pytest.mark.slow)])
def test_brokers_match_the_model(examples: int) -> None:
    run_state_machine_as_test(ClusterMachine, settings=runs(examples))
