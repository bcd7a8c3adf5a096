"""Consumer groups: their settings, committed offsets and lag."""

from collections.abc import Mapping
from itertools import combinations
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
from mocketmq.broker.consuming.offset_resets import Find, at_end, at_offset, at_start
from mocketmq.broker.registry.groups import MAX_RETRIES, MAX_RETRIES_LIMIT, MAX_RETRY_QUEUES, USUAL
from mocketmq.errors import (
    GroupNotFoundError,
    InvalidArgumentError,
    NoPermissionError,
    OutsideQueueError,
    QueueNotFoundError,
    TopicNotFoundError,
)
from mocketmq.http_api.fields import GroupPath, Input, InstantMs, NoInput, Offset, QueueId, TopicName
from mocketmq.http_api.route import ApiCall, Created, Route, RouteGroup


class GroupQueueOut(msgspec.Struct, frozen=True):
    """A group's position in a queue. `lag` counts messages from `committed_offset` to the end.

    `in_flight` counts those of them that were received and are not settled.
    """

    topic: str
    queue_id: int
    committed_offset: int
    max_offset: int
    lag: int
    in_flight: int


class GroupOut(msgspec.Struct, frozen=True):
    """A consumer group, and its position in each queue that it has consumed from.

    `fifo`: its gRPC clients consume in order.
    """

    name: str
    max_retries: int
    retry_queues: int
    fifo: bool
    lag: int
    in_flight: int
    queues: list[GroupQueueOut]


class GroupsOut(msgspec.Struct, frozen=True):
    """All groups, sorted by name."""

    groups: list[GroupOut]


class DeletedGroupOut(msgspec.Struct, frozen=True):
    """The name of the deleted group."""

    deleted: str


class GroupIn(Input, frozen=True):
    """Settings of a consumer group. `retry_queues` is how many queues `%RETRY%group` has.

    `fifo`: its gRPC clients consume in order; without it, that stays as it is.
    """

    max_retries: Annotated[int, Meta(ge=0, le=MAX_RETRIES_LIMIT)] = MAX_RETRIES
    retry_queues: Annotated[int, Meta(ge=1, le=MAX_RETRY_QUEUES)] = 1
    fifo: bool | UnsetType = UNSET


class ResetGroupIn(Input, frozen=True):
    """Where the group begins again in `topic`, or in its queue `queue_id` alone.

    `to` the `start` or the `end`; at the first message that was stored at `instant_ms` or later; or, in one
    queue, at an `offset`. Without any of them it begins at the start; two at once are refused.
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


async def groups(call: ApiCall, _: NoInput) -> GroupsOut:
    """Every consumer group, with its position in each queue."""
    return GroupsOut([_group_out(group) for group in call.broker.consuming_groups])


async def group(call: ApiCall, path: GroupPath) -> GroupOut:
    """A consumer group, with its position in each queue."""
    return _group_out(call.broker.consuming_groups.get(path.group))


async def put_group(call: ApiCall, path: GroupPath, wanted: GroupIn) -> GroupOut | Created:
    """Answers once the group is durable."""
    known = call.broker.registry.groups.find(path.group)
    config = known.config if known else USUAL
    if wanted.fifo is not UNSET:
        config = msgspec.structs.replace(config, consume_message_orderly=wanted.fifo)
    made = await call.broker.registry.groups.put(path.group, wanted.max_retries, wanted.retry_queues, config)
    group = call.broker.consuming_groups.of(made)
    return _group_out(group) if known else Created(_group_out(group))


async def delete_group(call: ApiCall, path: GroupPath) -> DeletedGroupOut:
    """Deletes its committed offsets too. Its retries and dead letters stay in their topics."""
    await call.broker.consuming_groups.delete(path.group, clean_offsets=True)
    return DeletedGroupOut(path.group)


async def reset_group(call: ApiCall, path: GroupPath, where: ResetGroupIn) -> GroupOut:
    """Messages that the group has received or popped there are free again; their receipts are spent.

    Its connected consumers go on at the new offsets. What they commit before they know of them is ignored.
    """
    given = {"to": where.to, "instant_ms": where.instant_ms, "offset": where.offset}
    first, *more = [name for name, value in given.items() if value is not UNSET] or ["to"]
    if more:
        raise InvalidArgumentError(more[0], given[more[0]], f"no value beside {first}")
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
    return _group_out(group)


def _group_out(found: ConsumingGroup) -> GroupOut:
    queues = [
        GroupQueueOut(
            group_queue.queue.topic,
            group_queue.queue.queue_id,
            group_queue.committed_offset,
            group_queue.queue.next_offset,
            group_queue.lag,
            group_queue.in_flight,
        )
        for group_queue in found.queues.values()
    ]
    queues.sort(key=lambda queue: (queue.topic, queue.queue_id))
    return GroupOut(
        found.name,
        found.registered.max_retries,
        found.registered.retry_queues,
        found.registered.config.consume_message_orderly,
        sum(queue.lag for queue in queues),
        sum(queue.in_flight for queue in queues),
        queues,
    )


GROUPS = RouteGroup(
    "groups",
    "Consumer groups, their committed offsets and lag",
    [
        Route("GET", "/v1/groups", groups, "List the consumer groups", GroupsOut),
        Route(
            "GET",
            "/v1/groups/{group}",
            group,
            "Show a consumer group",
            GroupOut,
            GroupPath,
            errors=[GroupNotFoundError],
        ),
        Route(
            "PUT",
            "/v1/groups/{group}",
            put_group,
            "Create or change a consumer group",
            GroupOut,
            GroupPath,
            GroupIn,
            is_body_optional=True,
            may_create=True,
        ),
        Route(
            "POST",
            "/v1/groups/{group}/reset",
            reset_group,
            "Let a consumer group begin again elsewhere",
            GroupOut,
            GroupPath,
            ResetGroupIn,
            errors=[
                NoPermissionError,
                TopicNotFoundError,
                QueueNotFoundError,
                OutsideQueueError,
                GroupNotFoundError,
            ],
        ),
        Route(
            "DELETE",
            "/v1/groups/{group}",
            delete_group,
            "Delete a consumer group",
            DeletedGroupOut,
            GroupPath,
            errors=[NoPermissionError, GroupNotFoundError],
        ),
    ],
)
