"""Resets a group's committed offsets (docs/protocol/remoting.md §2.10)."""

from typing import Final, NamedTuple

from mocketmq.access.needs import Action
from mocketmq.broker.consuming.offset_resets import Side, at_end, at_offset
from mocketmq.message.broker_share import ALONE
from mocketmq.remoting.access_rule import administers
from mocketmq.remoting.channel import queue_offsets
from mocketmq.remoting.lane import Effect
from mocketmq.remoting.request import RemotingCall, Request, RequestFamily, Response
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.fastjson import dumps, object_keys
from mocketmq.remoting.wire.header import Int32
from mocketmq.rocketmq_versions import V5_2_0

END: Final = -1
"""Timestamp that means the end of a queue."""


class ResetOffsetHeader(NamedTuple):
    """``timestamp`` is in milliseconds, or :data:`END`.

    RocketMQ before 5.2 moves offsets to the closest message, and without ``is_force`` only back. Clients of
    5.x may name one queue, and an ``offset`` instead of a time. The value -1 means none.
    """

    topic: str
    group: str
    timestamp: int
    is_force: bool
    queue_id: Int32 = -1
    offset: int = -1


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


RESETS: Final = RequestFamily(
    "Resetting offsets",
    [
        Request(
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            ResetOffsetHeader,
            reset,
            access=administers(Action.UPDATE, group="group", topic="topic"),
            effect=Effect.AT_END,
        ),
    ],
)
