"""Topics and their queues."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mocketmq.broker.consuming.polls import Patience
from mocketmq.broker.registry.topics import MAX_QUEUES, PERM_INHERIT, PERM_READ, PERM_WRITE, Topic
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.errors import NoPermissionError, TopicNotFoundError
from mocketmq.http_api.fields import LARGEST, Input, NoInput, TopicPath, WaitMs, bound_waits
from mocketmq.http_api.route import Call, Created, Family, Route
from mocketmq.settings import Settings

_LETTERS = {"r": PERM_READ, "w": PERM_WRITE, "i": PERM_INHERIT}


class QueueOut(msgspec.Struct, frozen=True):
    """A queue: its messages have the offsets from `min_offset` to `max_offset - 1`."""

    queue_id: int
    min_offset: int
    max_offset: int


class TopicOut(msgspec.Struct, frozen=True):
    """A topic. `perm` says what clients may do: `r` read, `w` write, `i` inherit."""

    name: str
    read_queues: int
    write_queues: int
    perm: str
    system: bool
    queues: list[QueueOut]


class TopicsOut(msgspec.Struct, frozen=True):
    """All topics, by name."""

    topics: list[TopicOut]


class TopicIn(Input, frozen=True):
    """How the topic shall be. Queues beyond a smaller count stay, unread."""

    read_queues: Annotated[int, Meta(ge=1, le=MAX_QUEUES)] = 4
    write_queues: Annotated[int, Meta(ge=1, le=MAX_QUEUES)] = 4
    perm: Literal["r", "w", "rw", "ri", "wi", "rwi"] = "rw"


class DeletedTopicOut(msgspec.Struct, frozen=True):
    """How many delayed messages were cancelled with the topic."""

    deleted: str
    cancelled: int


class WaitIn(Input, frozen=True):
    """How many messages the topic shall have got since it was last reset, and how long to wait for them."""

    delivered: Annotated[int, Meta(ge=1, le=LARGEST)]
    timeout_ms: WaitMs = 5_000


class WaitOut(msgspec.Struct, frozen=True):
    """How many messages the topic has got, and whether that is enough."""

    delivered: int
    reached: bool


async def topics(call: Call, _: NoInput) -> TopicsOut:
    """System topics are among them."""
    return TopicsOut([_topic_out(topic) for topic in call.broker.topics])


async def topic(call: Call, path: TopicPath) -> TopicOut:
    """One topic with its queues."""
    return _topic_out(call.broker.topics.get(path.topic))


async def put_topic(call: Call, path: TopicPath, wanted: TopicIn) -> TopicOut | Created:
    """Answers when it is durable."""
    is_new = call.broker.topics.find(path.topic) is None
    made = await call.broker.topics.put_by_client(
        path.topic, wanted.read_queues, wanted.write_queues, sum(_LETTERS[letter] for letter in wanted.perm)
    )
    return Created(_topic_out(made)) if is_new else _topic_out(made)


async def delete_topic(call: Call, path: TopicPath) -> DeletedTopicOut:
    """With its messages, their retries and dead letters, and how far groups have come in it."""
    return DeletedTopicOut(path.topic, await call.broker.reset.delete_topic(path.topic))


async def wait(call: Call, path: TopicPath, what: WaitIn) -> WaitOut:
    """The topic may not exist yet, if it is made on first use."""
    broker = call.broker
    if not broker.topics.auto_create:
        broker.topics.get(path.topic)
    patience = Patience(what.timeout_ms * US_PER_MS / US_PER_S)
    with broker.polls.listening((path.topic,)) as arrival:
        while True:
            arrival.clear()
            found = broker.topics.find(path.topic)
            delivered = sum(queue.next_offset - queue.min_offset for queue in found.queues) if found else 0
            reached = delivered >= what.delivered
            if reached or broker.polls.is_closed or not await patience.wait(arrival):
                return WaitOut(delivered, reached)


def _topic_out(found: Topic) -> TopicOut:
    return TopicOut(
        found.name,
        found.read_queues,
        found.write_queues,
        "".join(letter for letter, bit in _LETTERS.items() if found.perm & bit),
        found.is_system,
        [QueueOut(queue.queue_id, queue.min_offset, queue.next_offset) for queue in found.queues],
    )


def topic_routes(settings: Settings) -> Family:
    """The routes, with waits as long as the settings allow."""
    return Family(
        "topics",
        "Topics and their queues",
        [
            Route("GET", "/v1/topics", topics, "All topics", TopicsOut),
            Route(
                "GET",
                "/v1/topics/{topic}",
                topic,
                "One topic",
                TopicOut,
                TopicPath,
                errors=[TopicNotFoundError],
            ),
            Route(
                "PUT",
                "/v1/topics/{topic}",
                put_topic,
                "Create a topic, or change it",
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
                "Delete a topic with all that it holds",
                DeletedTopicOut,
                TopicPath,
                errors=[NoPermissionError, TopicNotFoundError],
            ),
            Route(
                "POST",
                "/v1/topics/{topic}/wait",
                wait,
                "Wait until a topic has got so many messages",
                WaitOut,
                TopicPath,
                bound_waits(WaitIn, settings.max_wait_us),
                errors=[TopicNotFoundError],
            ),
        ],
    )
