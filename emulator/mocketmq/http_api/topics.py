"""Routes for topics and their queues: list, create, change, delete."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.access.needs import Action
from mocketmq.broker.registry.topic import Topic, permission_bits, permission_letters
from mocketmq.broker.registry.topic_config import ABSENT, MAX_LITE_EXPIRATION, PLAIN, QueuesAtBroker
from mocketmq.errors import BrokerNotFoundError, InvalidArgumentError, NoPermissionError, TopicNotFoundError
from mocketmq.http_api.access import every, on_topic
from mocketmq.http_api.answer_fields import answer_from
from mocketmq.http_api.fields import Input, NameSearch, TopicName, TopicPath
from mocketmq.http_api.route import ApiCall, Created, Route, RouteGroup
from mocketmq.message.message_types import MessageType
from mocketmq.message.names import DLQ_PREFIX, MAX_BROKERS, MAX_QUEUES, RETRY_PREFIX


class QueueOut(msgspec.Struct, frozen=True):
    """A queue. Its messages have the offsets from `min_offset` to `max_offset - 1`."""

    queue_id: int
    min_offset: int
    max_offset: int


Permission = Literal["r", "w", "rw", "ri", "wi", "rwi"]
QueueCount = Annotated[int, Meta(ge=1, le=MAX_QUEUES)]
_USUAL: Final = QueuesAtBroker(4, 4, permission_bits("rw"))
"""The queues and the permission of a new topic."""


class BrokerQueuesOut(msgspec.Struct, frozen=True):
    """The queues and the permission of a topic on a broker."""

    name: str
    read_queues: int
    write_queues: int
    perm: str


class TopicOut(msgspec.Struct, frozen=True):
    """A topic. `perm` has the permissions of clients: `r` to read, `w` to write, `i` to inherit.

    `type` is the message type that gRPC clients may send; `mixed` allows all. Consumers of a topic of type
    `priority` get the messages of the highest queue first. A topic of type `lite` has lite topics, which
    expire after `lite_expiration` minutes if that is above 0. `lite_topics` is their number, and
    `lite_messages` the number of their messages, which are not in `queues`.

    `brokers` lists the brokers of a cluster that have the topic; `read_queues` and `write_queues` are the
    largest numbers of queues on any of them. `queues` has the queues of all brokers, numbered round robin.
    """

    name: str
    read_queues: int
    write_queues: int
    perm: str
    type: str
    lite_expiration: int
    system: bool
    lite_topics: int
    lite_messages: int
    queues: list[QueueOut]
    brokers: list[BrokerQueuesOut]


class TopicsIn(NameSearch, frozen=True):
    """Selects topics. Without `max`, there is only one page."""

    user: Annotated[bool, Meta(description="Omit system topics, retry topics and dead-letter topics")] = False


class TopicsOut(msgspec.Struct, frozen=True):
    """Topics, sorted by name. `count` is the number of matches on all pages.

    `next_after` is the next page's `after`, or null at the end of the list.
    """

    topics: list[TopicOut]
    count: int
    next_after: str | None


class BrokerQueuesIn(Input, frozen=True):
    """A broker that has the topic. An omitted field is as in the topic's own fields.

    If it is omitted there as well, the broker keeps its value, or gets the topic's if it lacked the topic.
    """

    name: Annotated[str, Meta(min_length=1, max_length=64, description="Name of a broker")]
    read_queues: QueueCount | UnsetType = UNSET
    write_queues: QueueCount | UnsetType = UNSET
    perm: Permission | UnsetType = UNSET


class TopicIn(Input, frozen=True):
    """Settings of a topic. If the number of queues shrinks, the other queues remain, but are not read.

    An existing topic keeps the values of omitted fields. A new topic has four queues for reading and four for
    writing, the permission `rw` and the type `mixed`, and is on all brokers. `brokers` lists the brokers of a
    cluster that have the topic, each once.
    """

    read_queues: QueueCount | UnsetType = UNSET
    write_queues: QueueCount | UnsetType = UNSET
    perm: Permission | UnsetType = UNSET
    type: MessageType | UnsetType = UNSET
    lite_expiration: (
        Annotated[
            int,
            Meta(
                ge=-1,
                le=MAX_LITE_EXPIRATION,
                description="Minutes without a new message after which a lite topic is deleted, at least 15;"
                " 0 or less means never",
            ),
        ]
        | UnsetType
    ) = UNSET
    brokers: Annotated[list[BrokerQueuesIn], Meta(min_length=1, max_length=MAX_BROKERS)] | UnsetType = UNSET


class LiteTopicOut(msgspec.Struct, frozen=True):
    """A lite topic. Its messages have the offsets from `min_offset` to `max_offset - 1`.

    `last_ms` is the store time of its newest message. `expires_ms` is the instant at which the lite topic is
    deleted if it gets no further message, or null if it does not expire. `clients` are the ids of its
    subscribers, and `groups` are the groups that have not yet settled all its messages.
    """

    name: str
    min_offset: int
    max_offset: int
    last_ms: int
    expires_ms: int | None
    clients: list[str]
    groups: list[str]


class LiteTopicsOut(msgspec.Struct, frozen=True):
    """Lite topics, sorted by name. `count` is the number of matches on all pages.

    `next_after` is the next page's `after`, or null at the end of the list.
    """

    lite_topics: list[LiteTopicOut]
    count: int
    next_after: str | None


class LiteTopicsIn(NameSearch, frozen=True, kw_only=True):
    """Selects lite topics of a topic. Without `max`, there is only one page."""

    topic: TopicName


class DeletedTopicOut(msgspec.Struct, frozen=True):
    """The deleted topic. `cancelled` is the number of its pending messages, which are cancelled."""

    deleted: str
    cancelled: int


TOPICS = RouteGroup("topics", "Topics and their queues")


@Route(TOPICS, "GET /v1/topics", "List the topics", needs=every("Topic"))
async def topics(call: ApiCall, which: TopicsIn) -> TopicsOut:
    """Returns all topics, including system topics, or a page of those that match, with their queues."""
    known = (one for one in call.broker.registry.topics if not which.user or _is_of_users(one))
    page, count, next_after = which.page_of(known)
    return TopicsOut([_topic_out(call, one) for one in page], count, next_after)


@Route(
    TOPICS, "GET /v1/topics/{topic}", "Show a topic", errors=[TopicNotFoundError], needs=on_topic(Action.GET)
)
async def topic(call: ApiCall, path: TopicPath) -> TopicOut:
    """Returns a topic with its queues."""
    return _topic_out(call, call.broker.registry.topics.get(path.topic))


@Route(
    TOPICS,
    "GET /v1/topics/{topic}/lite-topics",
    "List the lite topics of a topic",
    errors=[TopicNotFoundError],
    needs=on_topic(Action.GET),
)
async def lite_topics(call: ApiCall, which: LiteTopicsIn) -> LiteTopicsOut:
    """Returns the lite topics of a topic, or a page of those that match."""
    listing = call.broker.lite_topic_list
    page, count, next_after = which.page_of(listing.of(which.topic))
    states = map(listing.state, page)
    found = [answer_from(LiteTopicOut, one, max_offset=one.next_offset) for one in states]
    return LiteTopicsOut(found, count, next_after)


@Route(
    TOPICS,
    "PUT /v1/topics/{topic}",
    "Create or change a topic",
    is_body_optional=True,
    errors=[BrokerNotFoundError, NoPermissionError],
    needs=on_topic(Action.CREATE),
)
async def put_topic(call: ApiCall, path: TopicPath, wanted: TopicIn) -> TopicOut | Created:
    """Responds once the topic is durable."""
    known = call.broker.registry.topics.find_topic(path.topic)
    config = known.config if known else PLAIN
    if wanted.lite_expiration is not UNSET:
        config = config.with_lite_expiration(wanted.lite_expiration)
    queues = _USUAL if known is None else QueuesAtBroker(known.read_queues, known.write_queues, known.perm)
    queues = _changed(queues, wanted)
    made = await call.broker.registry.topics.put_by_client(
        path.topic,
        *queues,
        config if wanted.type is UNSET else config.typed(wanted.type),
        _placed(call, known, queues, wanted),
    )
    return _topic_out(call, made) if known else Created(_topic_out(call, made))


@Route(
    TOPICS,
    "DELETE /v1/topics/{topic}",
    "Delete a topic",
    errors=[NoPermissionError, TopicNotFoundError],
    needs=on_topic(Action.DELETE),
)
async def delete_topic(call: ApiCall, path: TopicPath) -> DeletedTopicOut:
    """Also deletes its messages, pending ones included, retries, dead letters and all groups' offsets."""
    return DeletedTopicOut(path.topic, await call.broker.reset.delete_topic(path.topic))


def _changed(queues: QueuesAtBroker, given: TopicIn | BrokerQueuesIn) -> QueuesAtBroker:
    """The queues, with the numbers and the permission that are given."""
    return QueuesAtBroker(
        queues.read_queues if given.read_queues is UNSET else given.read_queues,
        queues.write_queues if given.write_queues is UNSET else given.write_queues,
        queues.perm if given.perm is UNSET else permission_bits(given.perm),
    )


def _placed(
    call: ApiCall, known: Topic | None, usual: QueuesAtBroker, wanted: TopicIn
) -> Mapping[int, QueuesAtBroker] | None:
    """The topic's queues on each broker, by position; None if all of its brokers are to have the usual ones.

    Raises BrokerNotFoundError, InvalidArgumentError.
    """
    brokers = call.broker.registry.brokers
    different = () if known is None else known.config.at
    at = {index: _changed(queues, wanted) for index, queues in enumerate(different) if queues != ABSENT}
    if wanted.brokers is UNSET:
        return at or None
    placed: dict[str, QueuesAtBroker] = {}
    for each in wanted.brokers:
        position = brokers.broker_named(each.name).share.position
        if each.name in placed:
            raise InvalidArgumentError("brokers", each.name, "each broker once")
        placed[each.name] = _changed(at.get(position, usual), each)
    return brokers.placed(placed)


def _is_of_users(found: Topic) -> bool:
    return not found.is_system and not found.name.startswith((RETRY_PREFIX, DLQ_PREFIX))


def _topic_out(call: ApiCall, found: Topic) -> TopicOut:
    registry = call.broker.registry
    lites = registry.topics.lites.of(found.name)
    names = registry.brokers.names[: found.brokers]
    brokers = [(name, found.at_broker(position)) for position, name in enumerate(names)]
    used = {queue.key for queue in found.configured(read=True, write=True)} if found.config.at else set()
    return TopicOut(
        found.name,
        found.read_queues,
        found.write_queues,
        permission_letters(found.perm),
        found.config.message_type,
        found.config.lite_expiration,
        found.is_system,
        len(lites),
        sum(lite.next_offset - lite.min_offset for lite in lites),
        [
            QueueOut(queue.queue_id, queue.min_offset, queue.next_offset)
            for queue in found.queues
            if not used or queue.key in used or queue.next_offset
        ],
        [
            BrokerQueuesOut(name, at.read_queues, at.write_queues, permission_letters(at.perm))
            for name, at in brokers
            if at != ABSENT
        ],
    )
