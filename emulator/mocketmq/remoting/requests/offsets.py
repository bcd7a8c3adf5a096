"""Requests about offsets: committed offsets of groups, their tables and resets, and offsets of queues.

Sources: docs/protocol/remoting.md §2.4, §2.10.
"""

from typing import Final

import msgspec

from mocketmq.access.needs import Action
from mocketmq.broker.consuming.offset_resets import Side, at_end, at_offset
from mocketmq.message.broker_share import ALONE
from mocketmq.remoting import logical_queues
from mocketmq.remoting.access_rule import KEY, administers, consumes, reads
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.channel import queue_offsets
from mocketmq.remoting.lane import Effect
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.requests.queue_headers import ConsumerQueueHeader, QueueHeader
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.fastjson import dumps, object_keys
from mocketmq.remoting.wire.header import Int32, NoHeader, RequestHeader
from mocketmq.rocketmq_versions import V5_0_0, V5_2_0

END: Final = -1
"""Timestamp that means the end of a queue."""


class QueryConsumerOffsetHeader(ConsumerQueueHeader):
    """If ``set_zero_if_not_found`` is false, the client chooses where a group without an offset begins."""

    set_zero_if_not_found: bool = True


class UpdateConsumerOffsetHeader(ConsumerQueueHeader):
    """An offset to commit."""

    commit_offset: int


class SearchOffsetHeader(QueueHeader):
    """``timestamp`` is in milliseconds. Only 5.x clients send ``boundary_type``: ``lower`` or ``upper``."""

    timestamp: int
    boundary_type: str | None = None


OFFSETS: Final = RequestFamily("Offsets")


@Request(
    OFFSETS,
    RequestCode.QUERY_CONSUMER_OFFSET,
    access=reads(Action.SUB | Action.GET, topic="topic", group="consumerGroup"),
    effect=Effect.AT_ONCE,
    logical=logical_queues.committed,
)
async def query(call: RemotingCall[QueryConsumerOffsetHeader]) -> Response:
    """Return the offset from which a group consumes a queue. Raises RemotingError if there is none."""
    header = call.header
    offset = call.broker.committed_offsets.start_offset(
        header.consumer_group, header.topic, header.queue_id, anew=header.set_zero_if_not_found
    )
    if offset is None:
        raise RemotingError(
            ResponseCode.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
        )
    return _offset(offset)


@Request(
    OFFSETS,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    access=consumes("topic", "consumerGroup", actions=Action.SUB | Action.UPDATE, is_topic_first=True),
    effect=Effect.AT_ONCE,
    logical=logical_queues.commit,
)
async def update(call: RemotingCall[UpdateConsumerOffsetHeader]) -> Response:
    """Commit an offset. Never refused, as in RocketMQ."""
    header = call.header
    if await call.broker.committed_offsets.report(
        header.consumer_group, header.topic, header.queue_id, header.commit_offset
    ):
        return Response()
    return Response(remark="Offset has been previously reset")


@Request(
    OFFSETS,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    access=reads(topic="topic"),
    logical=logical_queues.search,
    is_for_slaves=True,
)
async def search(call: RemotingCall[SearchOffsetHeader]) -> Response:
    """Return the offset of the message stored at a time, by the rule of 4.x or one of the two of 5.x."""
    header, boundary = call.header, call.header.boundary_type
    if boundary is None and call.settings.server_version < V5_0_0:
        side: Side = "nearest"
    else:
        side = "upper" if (boundary or "").lower() == "upper" else "lower"
    return _offset(
        await call.broker.offset_resets.search(header.topic, header.queue_id, header.timestamp, side)
    )


@Request(OFFSETS, RequestCode.GET_MAX_OFFSET, access=reads(topic="topic"), logical=logical_queues.max_offset)
async def max_offset(call: RemotingCall[QueueHeader]) -> Response:
    """Return the offset for the queue's next message, or 0 if the queue does not exist, as in RocketMQ."""
    queue = call.broker.registry.topics.find_queue(call.header.topic, call.header.queue_id)
    return _offset(queue.next_offset if queue else 0)


@Request(
    OFFSETS,
    RequestCode.GET_MIN_OFFSET,
    access=reads(topic="topic"),
    logical=logical_queues.min_offset,
    is_for_slaves=True,
)
async def min_offset(call: RemotingCall[QueueHeader]) -> Response:
    """Return the offset of the queue's oldest message."""
    queue = call.broker.registry.topics.find_queue(call.header.topic, call.header.queue_id)
    return _offset(queue.min_offset if queue else 0)


@Request(
    OFFSETS,
    RequestCode.GET_EARLIEST_MSG_STORETIME,
    access=reads(topic="topic"),
    logical=logical_queues.earliest,
    is_for_slaves=True,
)
async def earliest(call: RemotingCall[QueueHeader]) -> Response:
    """Return the time at which the queue's oldest message was stored."""
    earliest_ms = await call.broker.offset_resets.earliest_ms(call.header.topic, call.header.queue_id)
    return Response({"timestamp": str(earliest_ms)})


def _offset(offset: int) -> Response:
    return Response({"offset": str(offset)})


class CloneOffsetsHeader(RequestHeader):
    """The default for ``topic`` is all topics. ``offline`` adds topics without a current subscription."""

    src_group: str
    dest_group: str
    topic: str = ""
    offline: bool = False


OFFSET_TABLES: Final = RequestFamily("Tables of offsets")


@Request(
    OFFSET_TABLES, RequestCode.GET_ALL_CONSUMER_OFFSET, access=KEY, effect=Effect.AT_ONCE, is_for_slaves=True
)
async def consumer_offsets(call: RemotingCall[NoHeader]) -> Response:
    """List the committed offsets of all groups, in the form of consumerOffset.json."""
    offsets: dict[str, list[tuple[int, int]]] = {}
    groups, share = call.broker.consuming_groups, call.channel.share
    for group in sorted(groups.with_offsets()):
        for queue, offset in groups.offsets_of(group).items():
            if share.has_queue(queue.topic, queue.queue_id):
                queue_id = share.queue_id(queue.topic, queue.queue_id)
                offsets.setdefault(f"{queue.topic}@{group}", []).append((queue_id, offset))
    return _table({name: object_keys(sorted(queues)) for name, queues in offsets.items()})


@Request(OFFSET_TABLES, RequestCode.GET_ALL_DELAY_OFFSET, access=KEY, is_for_slaves=True)
async def delay_offsets(call: RemotingCall[NoHeader]) -> Response:
    """List the delay offsets of all levels, in the form of delayOffset.json."""
    levels = call.broker.levels
    shown = levels.levels[: levels.table.highest]
    return _table(object_keys((level.number, level.next_offset) for level in shown))


@Request(
    OFFSET_TABLES,
    RequestCode.CLONE_GROUP_OFFSET,
    access=administers(Action.UPDATE, group="destGroup", topic="topic"),
    effect=Effect.AT_END,
)
async def clone(call: RemotingCall[CloneOffsetsHeader]) -> Response:
    """Copy a group's committed offsets to another group."""
    broker, header = call.broker, call.header
    live = None if header.offline else broker.registry.clients.find_connected_group(header.src_group)
    topics = None if live is None else live.subscriptions.keys()
    await broker.offset_resets.clone(header.src_group, header.dest_group, header.topic or None, topics)
    return Response()


def _table(offsets: dict[str, msgspec.Raw] | msgspec.Raw) -> Response:
    return Response(body=dumps({"offsetTable": offsets}))


class ResetOffsetHeader(RequestHeader):
    """``timestamp`` is in milliseconds, or :data:`END`.

    RocketMQ before 5.2 moves each offset to the message stored closest to that time, and without ``is_force``
    only backward. Clients of 5.x may name a queue, and an ``offset`` in it instead of a time; the value -1
    means that the field is not set.
    """

    topic: str
    group: str
    timestamp: int
    is_force: bool
    queue_id: Int32 = -1
    offset: int = -1


RESETS: Final = RequestFamily("Resetting offsets")


@Request(
    RESETS,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    access=administers(Action.UPDATE, group="group", topic="topic"),
    effect=Effect.AT_END,
)
async def reset(call: RemotingCall[ResetOffsetHeader]) -> Response:
    """Reset a group's offsets in a topic to a time, and notify its clients."""
    header, offsets, share = call.header, call.broker.offset_resets, call.channel.share
    is_5 = call.settings.server_version >= V5_2_0
    queue_id = None if header.queue_id < 0 else header.queue_id
    has_offset = queue_id is not None and header.offset >= 0
    if has_offset:
        find = at_offset(header.offset)
    else:
        side: Side = "lower" if is_5 else "nearest"
        find = at_end if header.timestamp == END else offsets.by_time(header.timestamp, side)
    done = await offsets.reset(
        header.group,
        header.topic,
        find,
        timestamp_ms=header.timestamp,
        is_forced=header.is_force or has_offset or is_5,
        queue_id=queue_id,
        is_wanted=None if share is ALONE else lambda queue: share.has_queue(queue.topic, queue.queue_id),
    )
    return Response(body=dumps({"offsetTable": object_keys(queue_offsets(done, share))}))
