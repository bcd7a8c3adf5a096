"""The parts that tests verify messages with, and how they are made."""

from dataclasses import dataclass

from mocketmq.broker.consuming.consuming import Consuming
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.verification.events import Events
from mocketmq.broker.verification.expectations import Expectations
from mocketmq.broker.verification.leaks import Leaks
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.store import Store


@dataclass(frozen=True)
class Verification:
    """What was sent and what became of it, what is left over, and what happened."""

    expectations: Expectations
    leaks: Leaks
    events: Events


def make_verification(
    store: Store, registry: Registry, consuming: Consuming, schemes: SchemeSet, max_message_bytes: int
) -> Verification:
    """Make the parts. They load nothing, and read from the store when asked."""
    groups, polls = consuming.groups, consuming.polls
    expectations = Expectations(store, registry, groups, polls, schemes, max_message_bytes)
    return Verification(
        expectations=expectations,
        leaks=Leaks(store.database, registry.clients, groups, polls, expectations),
        events=Events(store, registry.topics, groups, schemes, consuming.trail),
    )
