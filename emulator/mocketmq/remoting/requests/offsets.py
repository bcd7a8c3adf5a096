"""Committed offsets of groups, and the offsets of queues (docs/protocol/remoting.md §2.4)."""

from typing import Final, NamedTuple

from mocketmq.access.needs import Action
from mocketmq.broker.consuming.offset_resets import Side
from mocketmq.remoting.access_rule import consumes, reads
from mocketmq.remoting.lane import Effect
from mocketmq.remoting.request import RemotingCall, Request, RequestFamily, Response
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.header import Int32
from mocketmq.rocketmq_versions import V5_0_0


class QueryConsumerOffsetHeader(NamedTuple):
    """Without ``set_zero_if_not_found``, the client of a group without an offset chooses the first offset."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool = True


class UpdateConsumerOffsetHeader(NamedTuple):
    """An offset to commit."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: int


class SearchOffsetHeader(NamedTuple):
    """``timestamp`` is in milliseconds. Only 5.x clients send ``boundary_type``: ``lower`` or ``upper``."""

    topic: str
    queue_id: Int32
    timestamp: int
    boundary_type: str | None = None


class QueueHeader(NamedTuple):
    """Header of requests that name only a queue."""

    topic: str
    queue_id: Int32


async def query(call: RemotingCall[QueryConsumerOffsetHeader]) -> Response:
    """Return the offset from which a group consumes a queue. Raises RemotingError if there is none."""
    group, topic, queue_id, anew = call.header
    offset = call.broker.committed_offsets.start_offset(group, topic, queue_id, anew=anew)
    if offset is None:
        raise RemotingError(
            ResponseCode.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
        )
    return _offset(offset)


async def update(call: RemotingCall[UpdateConsumerOffsetHeader]) -> Response:
    """Commit an offset. As upstream, this is never refused."""
    if await call.broker.committed_offsets.report(*call.header):
        return Response()
    return Response(remark="Offset has been previously reset")


async def search(call: RemotingCall[SearchOffsetHeader]) -> Response:
    """Return the offset of the message stored at a time, by the rule of 4.x or one of the two of 5.x."""
    topic, queue_id, timestamp_ms, boundary = call.header
    if boundary is None and call.settings.server_version < V5_0_0:
        side: Side = "nearest"
    else:
        side = "upper" if (boundary or "").lower() == "upper" else "lower"
    return _offset(await call.broker.offset_resets.search(topic, queue_id, timestamp_ms, side))


async def max_offset(call: RemotingCall[QueueHeader]) -> Response:
    """Return the offset for the queue's next message, or 0 if the queue does not exist, as upstream."""
    queue = call.broker.registry.topics.find_queue(*call.header)
    return _offset(queue.next_offset if queue else 0)


async def min_offset(call: RemotingCall[QueueHeader]) -> Response:
    """Return the offset of the queue's oldest message."""
    queue = call.broker.registry.topics.find_queue(*call.header)
    return _offset(queue.min_offset if queue else 0)


async def earliest(call: RemotingCall[QueueHeader]) -> Response:
    """Return the time at which the queue's oldest message was stored."""
    return Response({"timestamp": str(await call.broker.offset_resets.earliest_ms(*call.header))})


def _offset(offset: int) -> Response:
    return Response({"offset": str(offset)})


OFFSETS: Final = RequestFamily(
    "Offsets",
    [
        Request(
            RequestCode.QUERY_CONSUMER_OFFSET,
            QueryConsumerOffsetHeader,
            query,
            access=reads(Action.SUB | Action.GET, topic="topic", group="consumerGroup"),
            effect=Effect.AT_ONCE,
        ),
        Request(
            RequestCode.UPDATE_CONSUMER_OFFSET,
            UpdateConsumerOffsetHeader,
            update,
            access=consumes(
                "topic", "consumerGroup", actions=Action.SUB | Action.UPDATE, is_topic_first=True
            ),
            effect=Effect.AT_ONCE,
        ),
        Request(
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffsetHeader, search, access=reads(topic="topic")
        ),
        Request(RequestCode.GET_MAX_OFFSET, QueueHeader, max_offset, access=reads(topic="topic")),
        Request(RequestCode.GET_MIN_OFFSET, QueueHeader, min_offset, access=reads(topic="topic")),
        Request(RequestCode.GET_EARLIEST_MSG_STORETIME, QueueHeader, earliest, access=reads(topic="topic")),
    ],
)
