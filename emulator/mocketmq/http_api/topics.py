"""Topics and their queues: list, create, change and delete them."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.registry.topics import (
    MAX_QUEUES,
    PLAIN,
    Topic,
    permission_bits,
    permission_letters,
)
from mocketmq.errors import NoPermissionError, TopicNotFoundError
from mocketmq.http_api.fields import Input, NoInput, TopicPath
from mocketmq.http_api.route import ApiCall, Created, Route, RouteGroup
from mocketmq.message.message_type import MessageType


class QueueOut(msgspec.Struct, frozen=True):
    """A queue. Its messages have the offsets from `min_offset` to `max_offset - 1`."""

    queue_id: int
    min_offset: int
    max_offset: int


class TopicOut(msgspec.Struct, frozen=True):
    """A topic. `perm` is what clients may do: `r` read, `w` write, `i` inherit.

    `type` is that of the messages which gRPC clients may send; `mixed` for all.
    """

    name: str
    read_queues: int
    write_queues: int
    perm: str
    type: str
    system: bool
    queues: list[QueueOut]


class TopicsOut(msgspec.Struct, frozen=True):
    """All topics, sorted by name."""

    topics: list[TopicOut]


class TopicIn(Input, frozen=True):
    """Settings of a topic. If it gets fewer queues than it has, the others stay but are not read.

    Without a `type` it keeps its own; a new topic is `mixed`.
    """

    read_queues: Annotated[int, Meta(ge=1, le=MAX_QUEUES)] = 4
    write_queues: Annotated[int, Meta(ge=1, le=MAX_QUEUES)] = 4
    perm: Literal["r", "w", "rw", "ri", "wi", "rwi"] = "rw"
    type: MessageType | UnsetType = UNSET


class DeletedTopicOut(msgspec.Struct, frozen=True):
    """The deleted topic. `cancelled` counts its pending messages, which are cancelled."""

    deleted: str
    cancelled: int


async def topics(call: ApiCall, _: NoInput) -> TopicsOut:
    """Every topic, system topics too, with its queues."""
    return TopicsOut([_topic_out(topic) for topic in call.broker.registry.topics])


async def topic(call: ApiCall, path: TopicPath) -> TopicOut:
    """A topic with its queues."""
    return _topic_out(call.broker.registry.topics.get(path.topic))


async def put_topic(call: ApiCall, path: TopicPath, wanted: TopicIn) -> TopicOut | Created:
    """Answers once the topic is durable."""
    known = call.broker.registry.topics.find(path.topic)
    config = known.config if known else PLAIN
    made = await call.broker.registry.topics.put_by_client(
        path.topic,
        wanted.read_queues,
        wanted.write_queues,
        permission_bits(wanted.perm),
        config if wanted.type is UNSET else config.typed(wanted.type),
    )
    return _topic_out(made) if known else Created(_topic_out(made))


async def delete_topic(call: ApiCall, path: TopicPath) -> DeletedTopicOut:
    """Deletes its messages, pending ones, retries and dead letters too, and all groups' offsets in it."""
    return DeletedTopicOut(path.topic, await call.broker.reset.delete_topic(path.topic))


def _topic_out(found: Topic) -> TopicOut:
    return TopicOut(
        found.name,
        found.read_queues,
        found.write_queues,
        permission_letters(found.perm),
        found.config.message_type,
        found.is_system,
        [QueueOut(queue.queue_id, queue.min_offset, queue.next_offset) for queue in found.queues],
    )


TOPICS = RouteGroup(
    "topics",
    "Topics and their queues",
    [
        Route("GET", "/v1/topics", topics, "List the topics", TopicsOut),
        Route(
            "GET",
            "/v1/topics/{topic}",
            topic,
            "Show a topic",
            TopicOut,
            TopicPath,
            errors=[TopicNotFoundError],
        ),
        Route(
            "PUT",
            "/v1/topics/{topic}",
            put_topic,
            "Create or change a topic",
            TopicOut,
            TopicPath,
            TopicIn,
            is_body_optional=True,
            may_create=True,
            errors=[NoPermissionError],
        ),
        Route(
            "DELETE",
            "/v1/topics/{topic}",
            delete_topic,
            "Delete a topic",
            DeletedTopicOut,
            TopicPath,
            errors=[NoPermissionError, TopicNotFoundError],
        ),
    ],
)
