"""The lite topics of a topic, for people: offsets, expiry, subscribers, and groups that are behind."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from mocketmq.broker.consuming.consuming_groups import ConsumingGroups
from mocketmq.broker.lite.expiry import LiteExpiry
from mocketmq.broker.lite.subscriptions import LiteSubscriptions, has_more
from mocketmq.broker.registry.topics import Topics
from mocketmq.store.queue import LiteQueue


class LiteTopicState(msgspec.Struct, frozen=True):
    """A lite topic. ``groups`` are the groups that have not yet settled all its messages."""

    name: str
    min_offset: int
    next_offset: int
    last_us: int
    expires_us: int | None
    clients: Sequence[str]
    groups: Sequence[str]


@dataclass(eq=False, repr=False)
class LiteTopicList:
    """Lists lite topics."""

    _topics: Topics
    _groups: ConsumingGroups
    _expiry: LiteExpiry
    _subscriptions: LiteSubscriptions

    def of(self, parent: str) -> Sequence[LiteQueue]:
        """The topic's lite topics, sorted by name. Raises TopicNotFoundError."""
        return sorted(self._topics.lites.of(self._topics.get(parent).name), key=lambda queue: queue.name)

    def state(self, queue: LiteQueue) -> LiteTopicState:
        groups = [group for group in self._groups if group.registered.config.lite_parent == queue.topic]
        return LiteTopicState(
            queue.name,
            queue.min_offset,
            queue.next_offset,
            queue.last_us,
            self._expiry.expires_us(queue),
            sorted(each.client_id for each in self._subscriptions.of(queue.topic, queue.name)),
            [group.name for group in groups if has_more(group, queue)],
        )
