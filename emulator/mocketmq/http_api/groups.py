"""Routes for consumer groups: settings, committed offsets, lag, resets."""

from collections.abc import Mapping
from itertools import combinations
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.access.needs import Action
from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
from mocketmq.broker.consuming.offset_resets import Find, at_end, at_offset, at_start
from mocketmq.broker.registry.groups import (
    ALWAYS,
    MAX_LITE_QUOTA,
    MAX_RETRIES,
    MAX_RETRIES_LIMIT,
    MAX_RETRY_QUEUES,
    PRIORITY_FACTOR,
    USUAL,
)
from mocketmq.errors import (
    GroupNotFoundError,
    InvalidArgumentError,
    NoPermissionError,
    OutsideQueueError,
    QueueNotFoundError,
    TopicNotFoundError,
)
from mocketmq.http_api.access import every, on_group, resets_group
from mocketmq.http_api.fields import (
    GroupPath,
    Input,
    InstantMs,
    NameSearch,
    Offset,
    QueueId,
    TopicName,
)
from mocketmq.http_api.route import ApiCall, Created, Route, RouteGroup, given
from mocketmq.message.names import TOPIC_NAMES, dead_letter_topic


class GroupQueueOut(msgspec.Struct, frozen=True):
    """A group's progress in a queue. `lag` is the number of messages from `committed_offset` to the end.

    `in_flight` is the number of messages that consumers have received but not settled. `retrying` is the
    number of messages that failed and wait for their next attempt: messages that were given back, which `lag`
    does not count yet, and messages that a consumer postponed by changing their invisible time. `lite_topic`
    is the name of the lite topic that the queue belongs to, or null.
    """

    topic: str
    queue_id: int
    lite_topic: str | None
    committed_offset: int
    max_offset: int
    lag: int
    in_flight: int
    retrying: int


class GroupOut(msgspec.Struct, frozen=True):
    """A consumer group, and its progress in each queue that it has consumed, and in each of its retry queues.

    `dead_letters` is the number of messages in its dead-letter topic; `members` are the ids of connected
    clients. With `fifo`, its gRPC clients consume in order. `priority_factor` is the percentage of receives
    from a topic of type `priority` that get the highest priority first. `lite_parent` is the topic whose lite
    topics the group consumes, or null.
    """

    name: str
    max_retries: int
    retry_queues: int
    fifo: bool
    priority_factor: int
    lite_parent: str | None
    lag: int
    in_flight: int
    retrying: int
    dead_letters: int
    members: list[str]
    queues: list[GroupQueueOut]


class GroupsOut(msgspec.Struct, frozen=True):
    """Groups, sorted by name. `count` is the number of matches on all pages.

    `next_after` is the next page's `after`, or null at the end of the list.
    """

    groups: list[GroupOut]
    count: int
    next_after: str | None


class GroupsIn(NameSearch, frozen=True):
    """Selects groups. Without `max`, there is only one page."""

    topic: (
        Annotated[
            TopicName, Meta(description=f"{TOPIC_NAMES}; lists only groups that have consumed the topic")
        ]
        | UnsetType
    ) = UNSET


class DeletedGroupOut(msgspec.Struct, frozen=True):
    """The name of the deleted group."""

    deleted: str


class GroupIn(Input, frozen=True):
    """Settings of a consumer group. `retry_queues` is the number of queues of `%RETRY%group`.

    With `fifo`, its gRPC clients consume in order. `priority_factor` is the percentage of receives from a
    topic of type `priority` that get the highest priority first. An existing group keeps the values of
    omitted fields. A new group retries a message 16 times, and has one retry queue.

    The group consumes the lite topics of `lite_parent`. Each client may subscribe to up to `lite_quota` of
    them. With `lite_exclusive`, only one client at a time may subscribe to a lite topic. With
    `lite_wildcard`, each client gets the messages of all lite topics.
    """

    max_retries: Annotated[int, Meta(ge=0, le=MAX_RETRIES_LIMIT)] | UnsetType = UNSET
    retry_queues: Annotated[int, Meta(ge=1, le=MAX_RETRY_QUEUES)] | UnsetType = UNSET
    fifo: bool | UnsetType = UNSET
    priority_factor: Annotated[int, Meta(ge=0, le=ALWAYS)] | UnsetType = UNSET
    lite_parent: TopicName | UnsetType = UNSET
    lite_exclusive: bool | UnsetType = UNSET
    lite_wildcard: bool | UnsetType = UNSET
    lite_quota: Annotated[int, Meta(ge=-1, le=MAX_LITE_QUOTA)] | UnsetType = UNSET


class ResetGroupIn(Input, frozen=True):
    """The new position of the group in all queues of `topic`, or only in the queue `queue_id`.

    At most one of `to`, `instant_ms` and `offset` may be given. `to` is `start`, the default, or `end`.
    `instant_ms` selects the first message stored at that instant or later. `offset` needs a `queue_id`.
    """

    more_schema: ClassVar[Mapping[str, object]] = {
        "not": {
            "anyOf": [{"required": list(pair)} for pair in combinations(("to", "instant_ms", "offset"), 2)]
        },
        "dependentRequired": {"offset": ["queue_id"]},
    }

    topic: TopicName
    queue_id: QueueId | UnsetType = UNSET
    to: Literal["start", "end"] | UnsetType = UNSET
    instant_ms: InstantMs | UnsetType = UNSET
    offset: Offset | UnsetType = UNSET


GROUPS = RouteGroup("groups", "Consumer groups, their committed offsets and lag")


@Route(GROUPS, "GET /v1/groups", "List the consumer groups", needs=every("Group"))
async def groups(call: ApiCall, which: GroupsIn) -> GroupsOut:
    """Returns all consumer groups, or a page of those that match, with their progress in each queue."""
    retries = await call.broker.group_progress.waiting_retries()
    known = call.broker.consuming_groups
    wanted = [one for one in known if which.topic in (UNSET, *(queue.topic for queue in one.queues))]
    page, count, next_after = which.page_of(wanted)
    return GroupsOut([_group_out(call.broker, group, retries) for group in page], count, next_after)


@Route(
    GROUPS,
    "GET /v1/groups/{group}",
    "Show a consumer group",
    errors=[GroupNotFoundError],
    needs=on_group(Action.GET),
)
async def group(call: ApiCall, path: GroupPath) -> GroupOut:
    """Returns a consumer group, with its progress in each queue."""
    return await _one_group(call.broker, call.broker.consuming_groups.get(path.group))


@Route(
    GROUPS,
    "PUT /v1/groups/{group}",
    "Create or change a consumer group",
    is_body_optional=True,
    needs=on_group(Action.CREATE),
)
async def put_group(call: ApiCall, path: GroupPath, wanted: GroupIn) -> GroupOut | Created:
    """Responds once the group is durable."""
    known = call.broker.registry.groups.find_group(path.group)
    max_retries, retry_queues, config = (
        (known.max_retries, known.retry_queues, known.config) if known else (MAX_RETRIES, 1, USUAL)
    )
    if wanted.max_retries is not UNSET:
        max_retries = wanted.max_retries
    if wanted.retry_queues is not UNSET:
        retry_queues = wanted.retry_queues
    if wanted.fifo is not UNSET:
        config = msgspec.structs.replace(config, consume_message_orderly=wanted.fifo)
    if wanted.priority_factor is not UNSET:
        attributes = {**config.attributes, PRIORITY_FACTOR: str(wanted.priority_factor)}
        config = msgspec.structs.replace(config, attributes=attributes)
    config = config.with_lite_topics(
        parent=given(wanted.lite_parent),
        is_exclusive=given(wanted.lite_exclusive),
        is_wildcard=given(wanted.lite_wildcard),
        quota=given(wanted.lite_quota),
    )
    made = await call.broker.registry.groups.put(path.group, max_retries, retry_queues, config)
    group = call.broker.consuming_groups.of(made)
    answer = await _one_group(call.broker, group)
    return answer if known else Created(answer)


@Route(
    GROUPS,
    "POST /v1/groups/{group}/reset",
    "Reset a consumer group's offsets",
    errors=[NoPermissionError, TopicNotFoundError, QueueNotFoundError, OutsideQueueError, GroupNotFoundError],
    needs=resets_group,
)
async def reset_group(call: ApiCall, path: GroupPath, where: ResetGroupIn) -> GroupOut:
    """Messages in flight become visible again, and their receipts become invalid.

    Connected consumers continue at the new offsets. The broker ignores offsets that they commit before they
    are notified of the reset.
    """
    given = {"to": where.to, "instant_ms": where.instant_ms, "offset": where.offset}
    first, *more = [name for name, value in given.items() if value is not UNSET] or ["to"]
    if more:
        raise InvalidArgumentError(more[0], given[more[0]], f"no value, because {first} is given")
    if where.offset is not UNSET and where.queue_id is UNSET:
        raise InvalidArgumentError("offset", where.offset, "only with a queue_id")
    group, offsets = call.broker.consuming_groups.of_client(path.group), call.broker.offset_resets
    call.broker.registry.topics.get(where.topic)
    find: Find = at_end if where.to == "end" else at_start
    if where.offset is not UNSET:
        find = at_offset(where.offset)
    elif where.instant_ms is not UNSET:
        find = offsets.since(where.instant_ms)
    timestamp_ms = -1 if where.to == "end" else where.instant_ms or 0
    queue_id = None if where.queue_id is UNSET else where.queue_id
    await offsets.reset(path.group, where.topic, find, timestamp_ms=timestamp_ms, queue_id=queue_id)
    return await _one_group(call.broker, group)


@Route(
    GROUPS,
    "DELETE /v1/groups/{group}",
    "Delete a consumer group",
    errors=[NoPermissionError, GroupNotFoundError],
    needs=on_group(Action.DELETE),
)
async def delete_group(call: ApiCall, path: GroupPath) -> DeletedGroupOut:
    """Also deletes the group's committed offsets. Retries and dead letters stay in their topics."""
    await call.broker.consuming_groups.delete(path.group, clean_offsets=True)
    return DeletedGroupOut(path.group)


async def _one_group(broker: Broker, group: ConsumingGroup) -> GroupOut:
    return _group_out(broker, group, await broker.group_progress.waiting_retries())


def _group_out(broker: Broker, found: ConsumingGroup, retries: Mapping[tuple[str, int], int]) -> GroupOut:
    live = broker.registry.clients.find_connected_group(found.name)
    dead = broker.registry.topics.find_topic(dead_letter_topic(found.name))
    queues = [
        GroupQueueOut(
            group_queue.queue.topic,
            group_queue.queue.queue_id,
            group_queue.queue.lite_topic,
            group_queue.committed_offset,
            group_queue.queue.next_offset,
            group_queue.lag,
            group_queue.in_flight,
            group_queue.postponed + retries.get(group_queue.queue.place, 0),
        )
        for group_queue in broker.group_progress.queues_of(found)
    ]
    return GroupOut(
        found.name,
        found.registered.max_retries,
        found.registered.retry_queues,
        found.registered.config.consume_message_orderly,
        found.registered.config.priority_factor,
        found.registered.config.lite_parent,
        sum(queue.lag for queue in queues),
        sum(queue.in_flight for queue in queues),
        sum(queue.retrying for queue in queues),
        sum(queue.next_offset - queue.min_offset for queue in dead.queues) if dead else 0,
        sorted(set(live.members.values())) if live else [],
        queues,
    )
