"""Lists the offsets of all groups and delay levels, and copies a group's offsets to another group."""

from typing import Final, NamedTuple

import msgspec

from mocketmq.access.needs import Action
from mocketmq.remoting.access_rule import KEY, administers
from mocketmq.remoting.lane import Effect
from mocketmq.remoting.request import RemotingCall, Request, RequestFamily, Response
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.fastjson import dumps, object_keys
from mocketmq.remoting.wire.header import NoHeader


class CloneOffsetsHeader(NamedTuple):
    """The default for ``topic`` is all topics. ``offline`` adds topics without a current subscription."""

    src_group: str
    dest_group: str
    topic: str = ""
    offline: bool = False


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


async def delay_offsets(call: RemotingCall[NoHeader]) -> Response:
    """List the delay offsets of all levels, in the form of delayOffset.json."""
    levels = call.broker.levels
    shown = levels.levels[: levels.table.highest]
    return _table(object_keys((level.number, level.next_offset) for level in shown))


async def clone(call: RemotingCall[CloneOffsetsHeader]) -> Response:
    """Copy a group's committed offsets to another group."""
    source, target, topic, is_offline = call.header
    broker = call.broker
    live = None if is_offline else broker.registry.clients.find_connected_group(source)
    topics = None if live is None else live.subscriptions.keys()
    await broker.offset_resets.clone(source, target, topic or None, topics)
    return Response()


def _table(offsets: dict[str, msgspec.Raw] | msgspec.Raw) -> Response:
    return Response(body=dumps({"offsetTable": offsets}))


OFFSET_TABLES: Final = RequestFamily(
    "Tables of offsets",
    [
        Request(
            RequestCode.GET_ALL_CONSUMER_OFFSET, NoHeader, consumer_offsets, access=KEY, effect=Effect.AT_ONCE
        ),
        Request(RequestCode.GET_ALL_DELAY_OFFSET, NoHeader, delay_offsets, access=KEY),
        Request(
            RequestCode.CLONE_GROUP_OFFSET,
            CloneOffsetsHeader,
            clone,
            access=administers(Action.UPDATE, group="destGroup", topic="topic"),
            effect=Effect.AT_END,
        ),
    ],
)
