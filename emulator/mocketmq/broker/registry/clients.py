"""The connected clients: their producer and consumer groups, and their subscriptions.

Only clients that divide a group's queues among themselves register here. Consumers by receipt need no
membership. Nothing is stored, because each heartbeat repeats all data (docs/protocol/remoting.md §8.1).
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from mocketmq.broker.filters.filter import EVERYTHING, TAG, Filter
from mocketmq.clock import wall_us
from mocketmq.errors import ClientOfflineError, shorten
from mocketmq.message.message import Message, StoredMessage
from mocketmq.rocketmq_versions import V5_0_0, version_name
from mocketmq.store.queue import Queue

log = logging.getLogger(__name__)

CLUSTERING, BROADCASTING, LITE_SELECTIVE = "CLUSTERING", "BROADCASTING", "LITE_SELECTIVE"


class OffsetReset(NamedTuple):
    """A group's new ``offsets`` in a topic, by queue id.

    ``timestamp_ms`` is the requested store time, or -1 for the end of the queues.
    """

    group: str
    topic: str
    timestamp_ms: int
    is_forced: bool
    offsets: Mapping[int, int]


class PushedReply(NamedTuple):
    """A reply for the client that sent the request.

    ``properties`` are the message's properties and the time of the push. The queue id may be negative.
    """

    message: Message
    properties: str
    producer_group: str
    is_unit_mode: bool
    store_us: int


class ClientAnswer(NamedTuple):
    """A client's answer: the JSON text, and the parsed value, or None if the text cannot be parsed."""

    text: bytes
    content: Any


class Channel(Protocol):
    """A client's connection, as the broker uses it."""

    @property
    def door(self) -> str:
        """The client's front door, as named in fault rules."""

    @property
    def remote(self) -> str:
        """The client's ``host:port``."""

    @property
    def broker_index(self) -> int | None:
        """The index of the broker that the client is connected to; None for all of them."""

    def notify_members_changed(self, group: str) -> None:
        """Make the client rebalance the group's queues."""

    def reset_offsets(self, reset: OffsetReset, language: str) -> None:
        """Make the client continue at the new offsets."""

    def check_transaction(self, half: StoredMessage, queue: Queue) -> None:
        """Ask the producer whether to commit or roll back its half message, whose real queue is ``queue``."""

    def reconnect(self) -> None:
        """Tell the client to connect anew. Raises ClientOfflineError if its protocol cannot."""

    # The following methods wait for the client's answer, and raise ClientFailedError.

    async def push_reply(self, reply: PushedReply) -> None:
        """Push a reply to the client that sent the request."""

    async def running_info(self, group: str, client_id: str, *, with_stacks: bool) -> ClientAnswer:
        """Ask a consumer for its status; ``with_stacks`` includes its threads' stacks, if supported."""

    async def consume(self, group: str, client_id: str, message: StoredMessage, queue: Queue) -> ClientAnswer:
        """Make a consumer consume a message now, and return its result."""

    async def consumed_offsets(self, group: str, topic: str) -> ClientAnswer:
        """Ask a consumer for its offsets in its queues of a topic."""


class Subscription(NamedTuple):
    """A group's subscription to a topic. ``kind`` is the filter language, such as TAG.

    ``problem`` is the reason why the broker cannot use the expression, unless the client filters itself.
    """

    topic: str
    expression: str = "*"
    version: int = 0  # milliseconds of the client's clock
    kind: str = TAG
    tag_filter: Filter = EVERYTHING
    problem: str | None = None


class ConsumerData(NamedTuple):
    """How one client consumes for a group."""

    group: str
    kind: str  # CONSUME_PASSIVELY: push, CONSUME_ACTIVELY: pull
    model: str
    starts: str  # CONSUME_FROM_…, the position at which a group without offsets begins
    subscriptions: Sequence[Subscription] = ()


class Heartbeat(NamedTuple):
    """A client's heartbeat. A brief one omits the subscriptions.

    ``release`` is the version of the client's library, if that differs from RocketMQ's ``version``;
    ``properties`` is what the application reports about itself.
    """

    client_id: str
    language: str
    version: int
    producers: Sequence[str] = ()
    consumers: Sequence[ConsumerData] = ()
    is_brief: bool = False
    release: str = ""
    properties: Mapping[str, str] = MappingProxyType({})


class Member(NamedTuple):
    """A client with one of its connections. The keys of ``consumers`` are groups."""

    channel: Channel
    client_id: str
    language: str
    version: int
    producers: Sequence[str]
    consumers: Mapping[str, ConsumerData]
    seen_us: int  # time of its last heartbeat by the wall clock
    release: str
    properties: Mapping[str, str]

    @property
    def version_text(self) -> str:
        """The version of the client's library, or RocketMQ's name for the reported version."""
        return self.release or version_name(self.version)


@dataclass(slots=True)
class LiveGroup:
    """A consumer group with connected members. The newest heartbeat applies to all of them."""

    kind: str
    model: str
    members: dict[Channel, str] = field(default_factory=dict)  # client ids
    subscriptions: dict[str, Subscription] = field(default_factory=dict)  # by topic

    def client_ids(self, endpoints: int) -> list[str]:
        """The ids of its clients, each only once, even if it is connected to several ``endpoints``."""
        ids = self.members.values()
        return list(ids if endpoints == 1 else dict.fromkeys(ids))


class Clients:
    """All connected clients.

    ``is_notified`` returns whether the members of a group are notified of changes. ``on_deserted`` is called
    with the name of a group whose last member has left.
    """

    def __init__(self, is_notified: Callable[[str], bool] = lambda _group: True) -> None:
        self._is_notified = is_notified
        self.on_deserted: Callable[[str], None] = lambda _group: None
        self._members: dict[Channel, Member] = {}
        self._by_id: dict[str, dict[Channel, None]] = {}  # connections by client id, oldest first
        self._groups: dict[str, LiveGroup] = {}
        self._turn = 0

    def __iter__(self) -> Iterator[Member]:
        """All clients, ordered by id, then address."""
        return iter(
            sorted(self._members.values(), key=lambda member: (member.client_id, member.channel.remote))
        )

    def find_connected_group(self, group: str) -> LiveGroup | None:
        """The consumer group, or None while no member is connected."""
        return self._groups.get(group)

    def id_at(self, channel: Channel) -> str | None:
        """The id of the client at this connection; None before its first heartbeat."""
        member = self._members.get(channel)
        return None if member is None else member.client_id

    def subscribers(self, topic: str) -> list[str]:
        """The groups with connected members that subscribe to the topic."""
        return [name for name, group in self._groups.items() if topic in group.subscriptions]

    def producer(self, client_id: str) -> Member | None:
        """The connected producer with this id, with its newest connection; or None."""
        return next((one for one in self._with_id(client_id) if one.producers), None)

    def next_producer(self, group: str, broker_index: int | None = None) -> Channel | None:
        """The group's next producer, round robin, if any. With broker_index, only clients of that broker."""
        channels = [
            member.channel
            for member in self._members.values()
            if group in member.producers
            and (broker_index is None or member.channel.broker_index in (None, broker_index))
        ]
        if not channels:
            return None
        self._turn += 1
        return channels[self._turn % len(channels)]

    def consumer(self, group: str, client_id: str) -> Member | None:
        """The group's connected consumer with this id, with its newest connection; or None."""
        return next((one for one in self._with_id(client_id) if group in one.consumers), None)

    def _with_id(self, client_id: str) -> Iterator[Member]:
        return (self._members[channel] for channel in reversed(self._by_id.get(client_id, {})))

    def heartbeat(self, channel: Channel, beat: Heartbeat) -> None:
        """Register a client, and notify its groups if their members or topics have changed.

        A group missing from a later heartbeat keeps the client as a member until the client leaves, as
        RocketMQ.
        """
        before = self._members.get(channel)
        if before is not None:
            self._forget_id(before)
        producers = dict.fromkeys((*(before.producers if before else ()), *beat.producers))
        consumers = {**(before.consumers if before else {})}
        for one in beat.consumers:
            known = consumers.get(one.group)
            if beat.is_brief and known is not None:
                one = one._replace(subscriptions=known.subscriptions)  # noqa: PLW2901
            consumers[one.group] = one
        member = self._members[channel] = Member(
            channel,
            beat.client_id,
            beat.language,
            beat.version,
            list(producers),
            consumers,
            wall_us(),
            beat.release,
            beat.properties,
        )
        self._by_id.setdefault(beat.client_id, {})[channel] = None
        for one in beat.consumers:
            self._join(channel, beat, one)
        if before is None:
            log.debug(
                "client %s (%s, %s) at %s joined: producer of %s, consumer of %s",
                beat.client_id,
                beat.language,
                member.version_text,
                channel.remote,
                ", ".join(producers) or "nothing",
                ", ".join(consumers) or "nothing",
            )

    def _join(self, channel: Channel, beat: Heartbeat, one: ConsumerData) -> None:
        group = self._groups.setdefault(one.group, LiveGroup(one.kind, one.model))
        group.kind, group.model = one.kind, one.model
        is_changed = group.members.get(channel) != beat.client_id
        group.members[channel] = beat.client_id
        if not beat.is_brief:
            wanted = {each.topic: each for each in one.subscriptions}
            is_changed = is_changed or wanted.keys() != group.subscriptions.keys()
            group.subscriptions = {
                topic: max(group.subscriptions.get(topic, each), each, key=_version)
                for topic, each in wanted.items()
            }
        if is_changed:
            self._notify(one.group, group)

    def leave(self, channel: Channel, producer_group: str | None, consumer_group: str | None) -> None:
        """Remove the client from these groups."""
        member = self._members.get(channel)
        if member is not None:
            producers = [name for name in member.producers if name != producer_group]
            consumers = {name: one for name, one in member.consumers.items() if name != consumer_group}
            if producers or consumers:
                self._members[channel] = member._replace(producers=producers, consumers=consumers)
            else:
                self._forget(channel)
        if consumer_group is not None:
            self._part(channel, consumer_group)

    def gone(self, channel: Channel) -> None:
        """Remove the client of a closed connection."""
        member = self._forget(channel)
        for name in member.consumers if member else ():
            self._part(channel, name)

    def _forget(self, channel: Channel) -> Member | None:
        member = self._members.pop(channel, None)
        if member is not None:
            self._forget_id(member)
            log.debug("client %s at %s left", member.client_id, channel.remote)
        return member

    def _forget_id(self, member: Member) -> None:
        channels = self._by_id[member.client_id]
        del channels[member.channel]
        if not channels:
            del self._by_id[member.client_id]

    def _part(self, channel: Channel, name: str) -> None:
        """Remove a member. The others are notified even if the client was not a member, as in RocketMQ."""
        group = self._groups.get(name)
        if group is None:
            return
        group.members.pop(channel, None)
        if group.members:
            self._notify(name, group)
        else:
            del self._groups[name]
            self.on_deserted(name)

    def _notify(self, name: str, group: LiveGroup) -> None:
        if group.model != BROADCASTING and self._is_notified(name):
            for channel in group.members:
                channel.notify_members_changed(name)

    def reconnect(self, client_id: str) -> int:
        """Tell a client to connect anew, on each of its connections; return their number.

        Raises ClientOfflineError.
        """
        channels = list(self._by_id.get(client_id, ()))
        if not channels:
            raise ClientOfflineError(f"client {shorten(client_id)} is not connected")
        for channel in channels:
            channel.reconnect()
        return len(channels)

    def push_offsets(self, reset: OffsetReset) -> None:
        """Push the new offsets to a group's 4.x clients, as 4.9.8 does.

        5.x clients learn of the reset from their next pull, as with 5.3.3, and continue at once. Pushed
        offsets would make them consume twice. Broadcast clients keep their offsets themselves, so every
        broadcast client gets the push.
        """
        group = self._groups.get(reset.group)
        for channel in group.members if group else ():
            if self._is_pushed(reset.group, channel):
                channel.reset_offsets(reset, self._members[channel].language)

    def gets_resets(self, name: str, channel: Channel) -> bool:
        """Whether a client follows pushed offsets. Lite pull consumers ignore them."""
        group = self._groups.get(name)
        is_pushing = group is not None and group.kind == "CONSUME_PASSIVELY" and channel in group.members
        return is_pushing and self._is_pushed(name, channel)

    def _is_pushed(self, name: str, channel: Channel) -> bool:
        return self._groups[name].model == BROADCASTING or self._members[channel].version < V5_0_0


def _version(subscription: Subscription) -> int:
    return subscription.version
