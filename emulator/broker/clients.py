"""Who is connected: clients, the groups that they produce and consume for, and what those subscribe to.

Only clients that divide the queues of a group among themselves register here; consumers by receipt need no
membership. Nothing of it is stored: clients say again who they are with each heartbeat (sheet 8.1).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from emulator.broker.filters import EVERYTHING, TagFilter

TAG: Final = "TAG"
CLUSTERING, BROADCASTING = "CLUSTERING", "BROADCASTING"


class Moved(NamedTuple):
    """A group shall go on elsewhere in a topic: at these ``offsets``, by queue id.

    ``timestamp_ms`` is what was asked for, -1 for the end.
    """

    group: str
    topic: str
    timestamp_ms: int
    is_forced: bool
    offsets: Mapping[int, int]


class Channel(Protocol):
    """A connection by which a client can be told something. ``remote`` is the client's ``host:port``."""

    @property
    def remote(self) -> str:
        """Where the client is."""

    def notify_members_changed(self, group: str) -> None:
        """Let the client divide the group's queues anew."""

    def reset_offsets(self, moved: Moved, language: str) -> None:
        """Let the client go on elsewhere."""


class Subscription(NamedTuple):
    """What a group wants of a topic. ``kind`` is TAG, or the name of another language of filters."""

    topic: str
    expression: str = "*"
    version: int = 0  # milliseconds of the client's clock
    kind: str = TAG
    tag_filter: TagFilter = EVERYTHING


class Consuming(NamedTuple):
    """How one client consumes for a group."""

    group: str
    kind: str  # CONSUME_PASSIVELY: push, CONSUME_ACTIVELY: pull
    model: str
    starts: str  # CONSUME_FROM_…: what a group without offsets does
    subscriptions: Sequence[Subscription] = ()


class Heartbeat(NamedTuple):
    """What a client says of itself. ``is_brief`` leaves out subscriptions that have not changed."""

    client_id: str
    language: str
    version: int
    producers: Sequence[str] = ()
    consumers: Sequence[Consuming] = ()
    is_brief: bool = False


class Member(NamedTuple):
    """One client, by one connection; ``consumers`` are by group."""

    channel: Channel
    client_id: str
    language: str
    version: int
    producers: Sequence[str]
    consumers: Mapping[str, Consuming]


@dataclass(slots=True)
class LiveGroup:
    """A consumer group of which somebody is there. What the newest heartbeat said is true for all."""

    kind: str
    model: str
    members: dict[Channel, str] = field(default_factory=dict)  # client ids
    subscriptions: dict[str, Subscription] = field(default_factory=dict)  # by topic


class Clients:
    """Every client that is connected."""

    def __init__(self) -> None:
        self._members: dict[Channel, Member] = {}
        self._groups: dict[str, LiveGroup] = {}

    def __iter__(self) -> Iterator[Member]:
        """All, by id and then address."""
        return iter(
            sorted(self._members.values(), key=lambda member: (member.client_id, member.channel.remote))
        )

    def find(self, group: str) -> LiveGroup | None:
        """The consumer group, if anybody of it is there."""
        return self._groups.get(group)

    def heartbeat(self, channel: Channel, beat: Heartbeat) -> None:
        """A client is there. Its groups are told if their members or topics are others now.

        A group that it no longer names stays its own, as upstream, until it leaves.
        """
        before = self._members.get(channel)
        producers = dict.fromkeys((*(before.producers if before else ()), *beat.producers))
        consumers = {**(before.consumers if before else {})}
        for one in beat.consumers:
            known = consumers.get(one.group)
            if beat.is_brief and known is not None:
                one = one._replace(subscriptions=known.subscriptions)  # noqa: PLW2901
            consumers[one.group] = one
        self._members[channel] = Member(
            channel, beat.client_id, beat.language, beat.version, list(producers), consumers
        )
        for one in beat.consumers:
            self._join(channel, beat, one)

    def _join(self, channel: Channel, beat: Heartbeat, one: Consuming) -> None:
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
        """The client produces or consumes no longer for these groups."""
        member = self._members.get(channel)
        if member is None:
            return
        producers = [name for name in member.producers if name != producer_group]
        consumers = {name: one for name, one in member.consumers.items() if name != consumer_group}
        if producers or consumers:
            self._members[channel] = member._replace(producers=producers, consumers=consumers)
        else:
            del self._members[channel]
        if consumer_group is not None:
            self._part(channel, consumer_group)

    def gone(self, channel: Channel) -> None:
        """The connection has ended."""
        member = self._members.pop(channel, None)
        for name in member.consumers if member else ():
            self._part(channel, name)

    def _part(self, channel: Channel, name: str) -> None:
        group = self._groups.get(name)
        if group is None or group.members.pop(channel, None) is None:
            return
        if group.members:
            self._notify(name, group)
        else:
            del self._groups[name]

    def _notify(self, name: str, group: LiveGroup) -> None:
        if group.model != BROADCASTING:
            for channel in group.members:
                channel.notify_members_changed(name)

    def tell(self, moved: Moved) -> None:
        """Let the clients of a group go on elsewhere, or their next commit would undo it."""
        group = self._groups.get(moved.group)
        for channel in group.members if group else ():
            channel.reset_offsets(moved, self._members[channel].language)


def _version(subscription: Subscription) -> int:
    return subscription.version


_FIRST_NAMED, _LAST_NAMED = 232, 611
_FIRST_DIGITS = 410
_OLD_VERSIONS = {37: "V3_0_11", 121: "V3_4_9"}


def version_name(version: int) -> str:
    """The name of a client's version, an ordinal of MQVersion; the number itself if it has none.

    From 4.1.0 on each version follows its snapshot, and after x.y.9 comes the next minor version.
    """
    if not _FIRST_NAMED <= version <= _LAST_NAMED:
        return _OLD_VERSIONS.get(version, str(version))
    steps, is_release = divmod(version - _FIRST_NAMED, 2)
    name = "V" + "_".join(str(_FIRST_DIGITS + steps))
    return name if is_release else f"{name}_SNAPSHOT"
