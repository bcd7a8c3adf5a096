"""Resetting offsets: 222 (sheet 2.10)."""

from typing import Final, NamedTuple

from mocketmq.remoting.access_rule import ADMIN
from mocketmq.remoting.channel import queue_offsets
from mocketmq.remoting.request import RemotingCall, Request, RequestFamily, Response
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.fastjson import dumps, object_keys
from mocketmq.remoting.wire.header import Int32


class ResetOffsetHeader(NamedTuple):
    """2.10; ``timestamp`` in milliseconds, -1 for the end of the queue.

    5.x may name one queue, unless ``queue_id`` is -1, and there an ``offset`` instead, unless that is -1.
    """

    topic: str
    group: str
    timestamp: int
    is_force: bool
    queue_id: Int32 = -1
    offset: int = -1


async def reset(call: RemotingCall[ResetOffsetHeader]) -> Response:
    """Let a group go on from where a topic was at a time; its clients are told."""
    header = call.header
    queue_id = None if header.queue_id < 0 else header.queue_id
    offset = None if queue_id is None or header.offset < 0 else header.offset
    moved = await call.broker.consuming.offsets.reset(
        header.group,
        header.topic,
        header.timestamp,
        is_forced=header.is_force or offset is not None,
        queue_id=queue_id,
        offset=offset,
    )
    return Response(body=dumps({"offsetTable": object_keys(queue_offsets(moved))}))


RESETS: Final = RequestFamily(
    "Resetting offsets",
    [
        Request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ResetOffsetHeader, reset, access=ADMIN),
    ],
)
