"""The parts that answer people's questions, and how they are made."""

from dataclasses import dataclass

from mocketmq.broker.consuming.consuming import Consuming
from mocketmq.broker.looking.consumers import Consumers
from mocketmq.broker.looking.events import Events
from mocketmq.broker.looking.expectations import Expectations
from mocketmq.broker.looking.group_progress import GroupProgress
from mocketmq.broker.looking.history import Histories
from mocketmq.broker.looking.leaks import Leaks
from mocketmq.broker.looking.pending import PendingMessages
from mocketmq.broker.registry.registry import Registry
from mocketmq.schedule.schemes import Schemes
from mocketmq.schedule.timer import Timer
from mocketmq.store.ground import Ground
from mocketmq.store.message_keys import MessageKeys


@dataclass(frozen=True)
class Looking:
    """Histories of messages, pending messages, progress of groups, answers of consumers; what tests ask."""

    histories: Histories
    pending: PendingMessages
    progress: GroupProgress
    consumers: Consumers
    expectations: Expectations
    leaks: Leaks
    events: Events


def make_looking(
    ground: Ground,
    registry: Registry,
    consuming: Consuming,
    timer: Timer,
    schemes: Schemes,
    keys: MessageKeys,
    max_message_bytes: int,
) -> Looking:
    """Make the parts. They load nothing, and read from the store when asked."""
    groups, polls = consuming.groups, consuming.polls
    expectations = Expectations(ground, registry, groups, polls, schemes, max_message_bytes)
    histories = Histories(ground, registry.topics, schemes, keys, consuming.notes)
    return Looking(
        histories=histories,
        pending=PendingMessages(timer, registry.topics, schemes, histories),
        progress=GroupProgress(ground, registry, groups),
        consumers=Consumers(registry, histories),
        expectations=expectations,
        leaks=Leaks(ground.database, registry.clients, groups, polls, expectations),
        events=Events(ground, registry.topics, groups, schemes, consuming.trail),
    )
