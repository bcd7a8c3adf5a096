"""Reset a group's committed offsets (docs/protocol/remoting.md §2.10)."""

from typing import Final, NamedTuple

from mocketmq.remoting.access_rule import ADMIN
from mocketmq.remoting.channel import queue_offsets
from mocketmq.remoting.request import RemotingCall, Request, RequestFamily, Response
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.fastjson import dumps, object_keys
from mocketmq.remoting.wire.header import Int32


class ResetOffsetHeader(NamedTuple):
    """``timestamp`` in milliseconds, -1 for the end of the queue.

    Clients of 5.x may name one queue, and an ``offset`` instead of a time; -1 means none.
    """

    topic: str
    group: str
    timestamp: int
    is_force: bool
    queue_id: Int32 = -1
    offset: int = -1


async def reset(call: RemotingCall[ResetOffsetHeader]) -> Response:
    """Set a group's offsets in a topic to those at a time, and tell its clients."""
    header = call.header
    queue_id = None if header.queue_id < 0 else header.queue_id
    offset = None if queue_id is None or header.offset < 0 else header.offset
    done = await call.broker.consuming.offsets.reset(
        header.group,
        header.topic,
        header.timestamp,
        is_forced=header.is_force or offset is not None,
        queue_id=queue_id,
        offset=offset,
    )
    return Response(body=dumps({"offsetTable": object_keys(queue_offsets(done))}))


RESETS: Final = RequestFamily(
    "Resetting offsets",
    [
        Request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ResetOffsetHeader, reset, access=ADMIN),
    ],
)
