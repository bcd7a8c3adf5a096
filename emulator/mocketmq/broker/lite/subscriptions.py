"""Subscriptions to lite topics (LiteSubscriptionRegistryImpl and LiteEventDispatcher of 5.5.0).

A client subscribes to names, whether or not lite topics with these names exist yet. The subscription keeps in
``ready`` the lite topics that may have messages for the client's group: an arriving message adds its lite
topic, and a receive that finds no more messages removes it. A receive therefore looks at a few queues,
however many lite topics the client subscribes to.

Subscriptions are only in memory, as in RocketMQ. SDKs repeat them every 30 s.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

import msgspec

from mocketmq.broker.consuming.committed_offsets import CommittedOffsets
from mocketmq.broker.consuming.consuming_groups import ConsumingGroup, ConsumingGroups
from mocketmq.broker.consuming.offset_resets import Offsets
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.consuming.pops import PopTarget
from mocketmq.broker.registry.groups import (
    LITE_BIND_TOPIC,
    LITE_RESET_WHEN_EVICTED,
    LITE_RESET_WHEN_UNSUBSCRIBED,
    MAX_RETRIES,
    USUAL,
    Group,
)
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.registry.topic import Topic
from mocketmq.clock import US_PER_S, steady_us
from mocketmq.errors import InvalidArgumentError, LiteSubscriptionQuotaError
from mocketmq.message.message_types import LITE_TOPIC_ALLOWED, is_lite_topic_name
from mocketmq.store.queue import LiteQueue, Queue

MAX_SUBSCRIPTIONS: Final = 100_000
"""Maximum number of lite topics in the subscriptions of all clients (maxLiteSubscriptionCount)."""
STALE_US: Final = 180 * US_PER_S
"""Real time after which a subscription ends unless its client repeats it."""


class StartKind(Enum):
    """Where a new subscription begins in a lite topic (OffsetOption of rocketmq-apis)."""

    LAST = auto()
    """At the group's committed offset."""
    MIN = auto()
    MAX = auto()
    OFFSET = auto()
    TAIL_N = auto()
    """This many messages before the group's committed offset, as in RocketMQ."""
    TIMESTAMP = auto()
    """The first message stored at this time, in milliseconds of the client's clock, or later."""


class LiteStart(msgspec.Struct, frozen=True):
    """Where a new subscription begins. Only the last three kinds use ``value``."""

    kind: StartKind = StartKind.LAST
    value: int = 0


@dataclass(eq=False, slots=True)
class LiteSubscription:
    """The lite topics of one client, by name, and those that may have messages for its group."""

    client_id: str
    group: ConsumingGroup
    parent: str
    notify: Callable[[str], None]  # tells the client that it has lost a lite topic to another client
    names: dict[str, None] = field(default_factory=dict)
    ready: dict[LiteQueue, None] = field(default_factory=dict)
    repeated_us: int = field(default_factory=steady_us)

    @property
    def source(self) -> str:
        """The source of the client's long polls. No topic has such a name."""
        return f"\0{self.client_id}"

    @property
    def is_wildcard(self) -> bool:
        """Whether the subscription covers all lite topics of the parent."""
        return self.group.registered.config.is_lite_wildcard

    def drop_drained(self) -> None:
        """Remove lite topics whose messages the group has settled, or will receive through another client."""
        for queue in list(self.ready):
            if not has_more(self.group, queue):
                del self.ready[queue]


class _ReadyQueues(Collection[Queue]):
    """The lite topics that may have messages for a client's group, by its current subscription."""

    def __init__(
        self, clients: Mapping[str, LiteSubscription], client_id: str, group: ConsumingGroup
    ) -> None:
        self._clients = clients
        self._client_id = client_id
        self._group = group

    @property
    def _queues(self) -> Collection[Queue]:
        subscription = self._clients.get(self._client_id)
        return () if subscription is None or subscription.group is not self._group else subscription.ready

    def __contains__(self, queue: object) -> bool:
        return queue in self._queues

    def __iter__(self) -> Iterator[Queue]:
        return iter(self._queues)

    def __len__(self) -> int:
        return len(self._queues)


class LiteSubscriptions:
    """The subscriptions of all clients."""

    def __init__(
        self,
        registry: Registry,
        groups: ConsumingGroups,
        polls: Polls,
        committed: CommittedOffsets,
        offsets: Offsets,
    ) -> None:
        self.count = 0
        self._topics = registry.topics
        self._registered = registry.groups
        self._groups = groups
        self._polls = polls
        self._committed = committed
        self._offsets = offsets
        self._clients: OrderedDict[str, LiteSubscription] = OrderedDict()  # least recently repeated first
        self._by_name: dict[tuple[str, str], dict[LiteSubscription, None]] = {}
        self._wildcards: dict[str, dict[LiteSubscription, None]] = {}
        polls.on_lite = self.arrived

    def of(self, parent: str, name: str) -> list[LiteSubscription]:
        """The subscriptions to a lite topic."""
        return [*self._by_name.get((parent, name), ()), *self._wildcards.get(parent, ())]

    def consumed_by(self, group: ConsumingGroup) -> set[Queue]:
        """The lite topics that the group has consumed, or to which its clients subscribe."""
        names = [
            (each.parent, name)
            for each in self._clients.values()
            if each.group is group
            for name in each.names
        ]
        return {*group.queues, *filter(None, (self._topics.lites.find(*one) for one in names))}

    def find(self, client_id: str) -> LiteSubscription | None:
        return self._clients.get(client_id)

    def arrived(self, queue: LiteQueue) -> None:
        """Make the subscribers of a lite topic look for messages, because one has become visible in it."""
        for each in self.of(queue.topic, queue.name):
            each.ready[queue] = None
            self._polls.wake(each.source)

    def wake(self, group_name: str, client_id: str = "") -> None:
        """Make the group's clients, or one of them, look for messages in all their lite topics."""
        for each in self._clients.values():
            if each.group.name == group_name and client_id in ("", each.client_id):
                existing = self._existing(each.parent, each.names)
                self._make_ready(each, self._topics.lites.of(each.parent) if each.is_wildcard else existing)

    # Subscribing

    async def admit(self, group_name: str, parent: str) -> ConsumingGroup:
        """The group for a client that consumes lite topics, created with its parent topic if allowed.

        Raises TopicNotFoundError, InvalidArgumentError for a topic of another type or a group of another
        topic, and the errors of :meth:`Groups.for_consuming`.
        """
        topic = self._topics.get(parent)
        if not topic.config.is_lite:
            raise InvalidArgumentError(
                "topic", parent, f"a topic of type lite; this one is of type {topic.config.message_type}"
            )
        known = self._registered.find_group(group_name)
        if known is None:
            await self._registered.for_consuming(group_name)  # raises unless the group may be created
            config = msgspec.structs.replace(USUAL, attributes={LITE_BIND_TOPIC: parent})
            known = await self._registered.put(group_name, MAX_RETRIES, 1, config)
        if known.config.lite_parent is None:
            raise InvalidArgumentError(
                "group",
                group_name,
                "",
                f"regular group cannot use LITE mode: {group_name}. Set its attribute {LITE_BIND_TOPIC} to"
                f" {parent}",
            )
        if known.config.lite_parent != parent:
            raise InvalidArgumentError(
                "topic",
                parent,
                "",
                f"lite group {group_name} is expected to bind topic {known.config.lite_parent}, but actual is"
                f" {parent}",
            )
        return await self._groups.for_consuming(group_name)

    async def add(
        self,
        client_id: str,
        group: ConsumingGroup,
        names: Collection[str],
        start: LiteStart,
        notify: Callable[[str], None],
    ) -> None:
        """Add lite topics to the client's subscription.

        In a group with the model ``Exclusive``, other clients lose these lite topics. Raises
        InvalidArgumentError, and LiteSubscriptionQuotaError.
        """
        config, parent = group.registered.config, group.registered.config.lite_parent or ""
        if config.is_lite_wildcard:
            raise InvalidArgumentError(
                "lite_topic_set",
                sorted(names),
                "",
                f"subscribe lite operation is not supported for this group: {group.name} gets the messages of"
                f" all lite topics of {parent}",
            )
        subscription = self._of_client(client_id, group, parent, notify)
        self._check(group.registered, subscription, {*subscription.names, *names})
        evicted = self._evict(subscription, names) if config.is_lite_exclusive else []
        for name in names:
            self._subscribe(subscription, name)
        if config.attributes.get(LITE_RESET_WHEN_EVICTED) == "true":
            await self._begin(group, evicted, LiteStart(StartKind.MIN))
        await self._begin(group, self._existing(parent, names), start)

    async def remove(self, client_id: str, names: Collection[str]) -> None:
        subscription = self._clients.get(client_id)
        if subscription is None:
            return
        removed = [name for name in names if name in subscription.names]
        for name in removed:
            self._unsubscribe(subscription, name)
        group = subscription.group
        if group.registered.config.attributes.get(LITE_RESET_WHEN_UNSUBSCRIBED) == "true":
            await self._begin(group, self._existing(subscription.parent, removed), LiteStart(StartKind.MIN))

    def replace(
        self, client_id: str, group: ConsumingGroup, names: Collection[str], notify: Callable[[str], None]
    ) -> None:
        """Make these the lite topics of the client's subscription; in a group with a wildcard, all of them.

        In an exclusive group, the client does not get lite topics of other clients, and is notified of that.
        Raises InvalidArgumentError, and LiteSubscriptionQuotaError.
        """
        config, parent = group.registered.config, group.registered.config.lite_parent or ""
        subscription = self._of_client(client_id, group, parent, notify)
        if config.is_lite_wildcard:
            self._subscribe_to_all(subscription)
            return
        self._check(group.registered, subscription, names)
        for name in [name for name in subscription.names if name not in names]:
            self._unsubscribe(subscription, name)
        for name in names:
            if config.is_lite_exclusive and self._others(subscription, name):
                notify(name)
            else:
                self._subscribe(subscription, name)

    def leave(self, client_id: str) -> None:
        subscription = self._clients.pop(client_id, None)
        if subscription is None:
            return
        for name in list(subscription.names):
            self._unsubscribe(subscription, name)
        wildcards = self._wildcards.get(subscription.parent, {})
        if subscription in wildcards:
            del wildcards[subscription]
            self.count -= 1
            if not wildcards:
                del self._wildcards[subscription.parent]

    def _of_client(
        self, client_id: str, group: ConsumingGroup, parent: str, notify: Callable[[str], None]
    ) -> LiteSubscription:
        self._drop_stale()
        subscription = self._clients.get(client_id)
        if subscription is None or subscription.group is not group or subscription.parent != parent:
            self.leave(client_id)
            subscription = self._clients[client_id] = LiteSubscription(client_id, group, parent, notify)
        subscription.notify, subscription.repeated_us = notify, steady_us()
        self._clients.move_to_end(client_id)
        return subscription

    def _drop_stale(self) -> None:
        before_us = steady_us() - STALE_US
        while self._clients and next(iter(self._clients.values())).repeated_us < before_us:
            self.leave(next(iter(self._clients)))

    def _check(self, group: Group, subscription: LiteSubscription, names: Collection[str]) -> None:
        """Check all names of a subscription."""
        wrong = next((name for name in names if not is_lite_topic_name(name)), None)
        if wrong is not None:
            raise InvalidArgumentError("lite_topic", wrong, LITE_TOPIC_ALLOWED)
        quota = group.config.lite_quota
        if len(names) > quota:
            raise LiteSubscriptionQuotaError(
                f"lite subscription quota exceeded: {quota}. A client of group {group.name} would have"
                f" {len(names)} lite topics"
            )
        if self.count + len(names) - len(subscription.names) > MAX_SUBSCRIPTIONS:
            raise LiteSubscriptionQuotaError(
                f"lite subscription quota exceeded {MAX_SUBSCRIPTIONS}, the quota of all clients together"
            )

    def _subscribe(self, subscription: LiteSubscription, name: str) -> None:
        if name in subscription.names:
            return
        subscription.names[name] = None
        self._by_name.setdefault((subscription.parent, name), {})[subscription] = None
        self.count += 1
        self._make_ready(subscription, self._existing(subscription.parent, [name]))

    def _subscribe_to_all(self, subscription: LiteSubscription) -> None:
        subscribers = self._wildcards.setdefault(subscription.parent, {})
        if subscription not in subscribers:
            subscribers[subscription] = None
            self.count += 1
            self._make_ready(subscription, self._topics.lites.of(subscription.parent))

    def look_again(self) -> None:
        """Determine again which lite topics have messages for their subscribers, after a restore."""
        for each in self._clients.values():
            each.ready.clear()
            lites = self._topics.lites.of(each.parent)
            self._make_ready(each, lites if each.is_wildcard else self._existing(each.parent, each.names))

    def _make_ready(self, subscription: LiteSubscription, queues: Iterable[LiteQueue]) -> None:
        subscription.ready.update((queue, None) for queue in queues if has_more(subscription.group, queue))
        if subscription.ready:
            self._polls.wake(subscription.source)

    def _unsubscribe(self, subscription: LiteSubscription, name: str) -> None:
        del subscription.names[name]
        self.count -= 1
        key = subscription.parent, name
        subscribers = self._by_name[key]
        del subscribers[subscription]
        if not subscribers:
            del self._by_name[key]
        for queue in [queue for queue in subscription.ready if queue.name == name]:
            del subscription.ready[queue]

    def _evict(self, subscription: LiteSubscription, names: Collection[str]) -> list[LiteQueue]:
        """Take lite topics from the other clients of the group. Returns those that exist."""
        evicted = []
        for name in names:
            for other in self._others(subscription, name):
                self._unsubscribe(other, name)
                other.notify(name)
                evicted.append(name)
        return self._existing(subscription.parent, evicted)

    def _others(self, subscription: LiteSubscription, name: str) -> list[LiteSubscription]:
        return [
            other
            for other in self._by_name.get((subscription.parent, name), ())
            if other is not subscription and other.group is subscription.group
        ]

    def _existing(self, parent: str, names: Iterable[str]) -> list[LiteQueue]:
        found = (self._topics.lites.find(parent, name) for name in names)
        return [queue for queue in found if queue is not None]

    async def _begin(self, group: ConsumingGroup, queues: Collection[LiteQueue], start: LiteStart) -> None:
        """Set the group's offsets in these lite topics according to ``start``."""
        targets: dict[Queue, int] = {}
        for queue in queues:
            target = await self._target(group, queue, start)
            if target is not None:
                targets[queue] = min(max(target, queue.min_offset), queue.next_offset)
        if targets:
            await self._committed.reset(group, targets)

    async def _target(self, group: ConsumingGroup, queue: LiteQueue, start: LiteStart) -> int | None:
        match start.kind:
            case StartKind.MIN:
                return queue.min_offset
            case StartKind.MAX:
                return queue.next_offset
            case StartKind.OFFSET:
                return start.value
            case StartKind.TAIL_N:
                known = group.queues.get(queue)
                return None if known is None else known.committed_offset - start.value
            case StartKind.TIMESTAMP:
                return await self._offsets.first_at(queue, start.value)
        return None

    # Receiving

    async def target(self, client_id: str, group_name: str, topic: Topic) -> PopTarget:
        """What the client pops from: the lite topics of its subscription, which it may make while it waits.

        Raises the errors of :meth:`admit`.
        """
        group = await self.admit(group_name, topic.name)
        subscription = self._clients.get(client_id)
        if subscription is not None:
            subscription.drop_drained()
        ready = _ReadyQueues(self._clients, client_id, group)
        return PopTarget(group, topic, None, ready, f"\0{client_id}")


def has_more(group: ConsumingGroup, queue: LiteQueue) -> bool:
    """Whether the lite topic has messages that the group has not settled yet."""
    known = group.queues.get(queue)
    begun = queue.min_offset if known is None else max(known.next_offset, queue.min_offset)
    return begun < queue.next_offset or (known is not None and bool(known.open))
