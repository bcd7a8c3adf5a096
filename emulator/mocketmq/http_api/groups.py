"""Consumer groups: their settings, committed offsets and lag."""

from typing import Annotated

import msgspec
from msgspec import Meta

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
from mocketmq.broker.registry.groups import MAX_RETRIES, MAX_RETRIES_LIMIT, MAX_RETRY_QUEUES
from mocketmq.errors import GroupNotFoundError, NoPermissionError
from mocketmq.http_api.fields import GroupPath, Input, NoInput
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
    """A consumer group, and its position in each queue that it has consumed from."""

    name: str
    max_retries: int
    retry_queues: int
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
    """Settings of a consumer group. `retry_queues` is how many queues `%RETRY%group` has."""

    max_retries: Annotated[int, Meta(ge=0, le=MAX_RETRIES_LIMIT)] = MAX_RETRIES
    retry_queues: Annotated[int, Meta(ge=1, le=MAX_RETRY_QUEUES)] = 1


async def groups(call: ApiCall, _: NoInput) -> GroupsOut:
    """Every consumer group, with its position in each queue."""
    return GroupsOut([_group_out(group) for group in call.broker.consuming.groups])


async def group(call: ApiCall, path: GroupPath) -> GroupOut:
    """A consumer group, with its position in each queue."""
    return _group_out(call.broker.consuming.groups.get(path.group))


async def put_group(call: ApiCall, path: GroupPath, wanted: GroupIn) -> GroupOut | Created:
    """Answers once the group is durable."""
    is_new = all(known.name != path.group for known in call.broker.registry.groups)
    made = await call.broker.registry.groups.put(path.group, wanted.max_retries, wanted.retry_queues)
    group = call.broker.consuming.groups.of(made)
    return Created(_group_out(group)) if is_new else _group_out(group)


async def delete_group(call: ApiCall, path: GroupPath) -> DeletedGroupOut:
    """Deletes its committed offsets too. Its retries and dead letters stay in their topics."""
    await call.broker.consuming.groups.delete(path.group, clean_offsets=True)
    return DeletedGroupOut(path.group)


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
