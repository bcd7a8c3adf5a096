"""The parts that answer people's questions, and how they are made."""

from dataclasses import dataclass

from mocketmq.broker.consuming.consuming import Consuming
from mocketmq.broker.inspection.consumers import Consumers
from mocketmq.broker.inspection.group_progress import GroupProgress
from mocketmq.broker.inspection.history import Histories
from mocketmq.broker.inspection.pending import PendingMessages
from mocketmq.broker.inspection.recalls import Recalls
from mocketmq.broker.registry.registry import Registry
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.schedule.timer import Timer
from mocketmq.store.message_keys import MessageKeys
from mocketmq.store.store import Store


@dataclass(frozen=True)
class Inspection:
    """Histories of messages, pending messages and their recall, progress of groups, answers of consumers."""

    histories: Histories
    pending: PendingMessages
    recalls: Recalls
    progress: GroupProgress
    consumers: Consumers


def make_inspection(
    store: Store,
    registry: Registry,
    consuming: Consuming,
    timer: Timer,
    schemes: SchemeSet,
    keys: MessageKeys,
) -> Inspection:
    """Make the parts. They load nothing, and read from the store when asked."""
    histories = Histories(store, registry.topics, schemes, keys, consuming.notes)
    pending = PendingMessages(timer, registry.topics, schemes, histories)
    return Inspection(
        histories=histories,
        pending=pending,
        recalls=Recalls(store.clock, registry.topics, pending),
        progress=GroupProgress(store, registry, consuming.groups),
        consumers=Consumers(registry, histories),
    )
