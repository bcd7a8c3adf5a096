"""The parts for those who watch the broker, and how they are made."""

from dataclasses import dataclass

from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.registry.topics import Topics
from mocketmq.broker.watching.live import Live
from mocketmq.broker.watching.stored_records import StoredRecords
from mocketmq.schedule.held_deliveries import HeldDeliveries
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.store import Store


@dataclass(frozen=True)
class Watching:
    """What the broker does now, and what it has stored, in lines."""

    live: Live
    records: StoredRecords


def make_watching(
    store: Store,
    topics: Topics,
    levels: LevelQueues,
    held: HeldDeliveries,
    schemes: SchemeSet,
    polls: Polls,
) -> Watching:
    """Make the parts. They load nothing, and do nothing while nobody watches."""
    records = StoredRecords(store, topics, schemes)
    return Watching(Live(store, levels, held, schemes, polls, records), records)
