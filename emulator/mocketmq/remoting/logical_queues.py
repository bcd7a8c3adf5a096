"""Serves requests for logical queues of static topics, by calling the handlers of ordinary queues.

Clients of a static topic name a logical queue and logical offsets. Each handler here checks that the broker
leads the logical queue, calls the ordinary handler with the queue of a mapping item and an offset in that
queue, and converts the offsets in the response. Older messages may be in a queue of another broker. Although
all brokers share one store, requests for such messages are refused while that broker is down.

Source: the methods rewriteRequestForStaticTopic and rewriteResponseForStaticTopic of the processors, 5.5.0
"""

import random
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mocketmq.broker.registry.static_topic import MappingItem, QueueMapping, item_at
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Handler
from mocketmq.remoting.wire.codes import RemotingError, ResponseCode
from mocketmq.remoting.wire.pull_flags import COMMIT_OFFSET, SUSPEND
from mocketmq.store.queue import Queue

_MOVING_WAIT_MS: Final = 1_000
"""Maximum time that a pull waits while its logical queue is being moved to another broker."""


class LogicalQueue(msgspec.Struct, frozen=True):
    """A logical queue that the broker leads. ``items`` has the mapping items with a known logical offset."""

    leader: MappingItem
    items: Sequence[MappingItem]


async def send(call: RemotingCall[Any], mapping: QueueMapping, handler: Handler) -> Response:
    """Send to the leader's queue. For a negative number, choose a logical queue that the broker leads."""
    number = call.header.queue_id
    if number < 0 and mapping.led:
        number = random.choice([*mapping.led])  # noqa: S311 - spreads load
    queue = _led(call, mapping, number)
    response = await handler(_at(call, queue.leader))
    if "queueOffset" not in response.ext:
        return response
    offset = queue.leader.logical_offset(int(response.ext["queueOffset"]))
    ext = {**response.ext, "queueId": str(number), "queueOffset": str(offset)}
    return Response(ext, response.body, response.code, response.remark)


async def pull(call: RemotingCall[Any], mapping: QueueMapping, handler: Handler) -> Response:
    """Pull from the queue that has the logical offset; at its end, direct the consumer to the next queue."""
    header, queue = call.header, _led(call, mapping, call.header.queue_id)
    item = item_at(queue.items, header.queue_offset)
    after = next((each for each in queue.items if each.generation > item.generation), None)
    offset, flag, wait_ms = header.queue_offset - item.start, header.sys_flag, header.suspend_timeout_millis
    if item_at(queue.items, header.commit_offset) is not item:
        flag &= ~COMMIT_OFFSET  # the consumer also commits by a separate request
    if after is not None:
        flag &= ~SUSPEND
    elif item is not queue.leader:
        wait_ms = min(wait_ms, _MOVING_WAIT_MS)
    response = await handler(
        _at(
            call,
            item,
            queue_offset=offset,
            commit_offset=header.commit_offset - item.start,
            sys_flag=flag,
            suspend_timeout_millis=wait_ms,
        )
    )
    if "nextBeginOffset" not in response.ext:
        return response
    code, largest = response.code, int(response.ext["maxOffset"])
    begins, least, following = item, int(response.ext["minOffset"]), int(response.ext["nextBeginOffset"])
    if code != ResponseCode.SUCCESS and after is not None and offset >= largest:
        code, begins, least, largest, following = ResponseCode.PULL_RETRY_IMMEDIATELY, after, 0, 0, 0
    ext = {
        **response.ext,
        "nextBeginOffset": str(begins.start + following),
        "minOffset": str(begins.start + least),
        "maxOffset": str(max(begins.start + largest, queue.leader.start)),
        "offsetDelta": str(begins.start),
    }
    is_own = code == ResponseCode.SUCCESS and item.broker == mapping.broker
    return Response(ext, response.body, code, response.remark if is_own else None)


async def commit(call: RemotingCall[Any], mapping: QueueMapping, handler: Handler) -> Response:
    """Commit an offset in the queue that has it, and commit all earlier queues up to their ends.

    A consumer that has reached the offset has consumed the earlier queues, so these must not show any lag,
    even if their broker is down.
    """
    queue = _led(call, mapping, call.header.queue_id)
    item = item_at(queue.items, call.header.commit_offset)
    response = await handler(_at(call, item, commit_offset=call.header.commit_offset - item.start))
    for before in queue.items[: queue.items.index(item)]:
        passed = _queue_of(call, before)
        header = replace(call.header, queue_id=passed.queue_id, commit_offset=passed.next_offset)
        await handler(call.with_header(header))
    return response


async def committed(call: RemotingCall[Any], mapping: QueueMapping, handler: Handler) -> Response:
    """Return the group's offset in the newest queue in which it has committed one."""
    queue = _led(call, mapping, call.header.queue_id)
    may_begin = len(queue.items) == 1 and call.header.set_zero_if_not_found
    for item in reversed(queue.items):
        try:
            response = await handler(_at(call, item, set_zero_if_not_found=may_begin))
        except RemotingError as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
        else:
            return _offset(item.start + _offset_in(response))
    raise RemotingError(ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first")


async def search(call: RemotingCall[Any], mapping: QueueMapping, handler: Handler) -> Response:
    """Return the offset of the message stored at a time, in whichever queue has it."""
    queue = _led(call, mapping, call.header.queue_id)
    if (call.header.boundary_type or "").lower() == "upper":
        item = await _newest_since(call, queue, handler)
        return _offset(item.start + _offset_in(await handler(_at(call, item))))
    for item in queue.items[:-1]:
        offset = _offset_in(await handler(_at(call, item)))
        if offset < _queue_of(call, item).next_offset:
            return _offset(item.start + offset)
    newest = queue.items[-1]
    return _offset(newest.start + _offset_in(await handler(_at(call, newest))))


async def _newest_since(call: RemotingCall[Any], queue: LogicalQueue, handler: Handler) -> MappingItem:
    """The newest queue with a message stored at or before the time, or the first queue if there is none."""
    header = replace(call.header, timestamp=call.header.timestamp + 1, boundary_type="lower")
    after = call.with_header(header)
    for item in reversed(queue.items):
        if _offset_in(await handler(_at(after, item))) > _queue_of(call, item).min_offset:
            return item
    return queue.items[0]


async def max_offset(call: RemotingCall[Any], mapping: QueueMapping, handler: Handler) -> Response:
    """Return the offset for the next message of the newest queue."""
    newest = _led(call, mapping, call.header.queue_id).items[-1]
    return _offset(newest.start + _offset_in(await handler(_at(call, newest))))


async def min_offset(call: RemotingCall[Any], mapping: QueueMapping, handler: Handler) -> Response:
    """Return the offset of the oldest message of the oldest queue."""
    oldest = _led(call, mapping, call.header.queue_id).items[0]
    return _offset(oldest.start + _offset_in(await handler(_at(call, oldest))))


async def earliest(call: RemotingCall[Any], mapping: QueueMapping, handler: Handler) -> Response:
    """Return the time at which the oldest message was stored."""
    items = _led(call, mapping, call.header.queue_id).items
    filled = (each for each in items if (queue := _queue_of(call, each)).min_offset < queue.next_offset)
    return await handler(_at(call, next(filled, items[-1])))


def _led(call: RemotingCall[Any], mapping: QueueMapping, number: int) -> LogicalQueue:
    """The logical queue with this number. Raises RemotingError if the broker does not lead it."""
    topic, items = call.header.topic, mapping.hosted.get(number, ())
    decided = [each for each in items if each.is_decided]
    if not decided or items[-1].broker != mapping.broker:
        raise RemotingError(
            ResponseCode.NOT_LEADER_FOR_QUEUE,
            f"{topic}-{number} does not exit in request process of current broker {mapping.broker}",
        )
    return LogicalQueue(items[-1], decided)


def _at(call: RemotingCall[Any], item: MappingItem, **changes: object) -> RemotingCall[Any]:
    """Make the same request for the queue of the mapping item.

    Raises RemotingError if the queue belongs to another broker, which is down.
    """
    registered = call.broker.registry.brokers.broker_named(item.broker)
    if registered.state != "running" and registered.share.position != call.channel.share.position:
        raise RemotingError(
            ResponseCode.SYSTEM_ERROR,
            f"{item.broker}, which holds older messages of a logical queue of {call.header.topic},"
            f" {registered.trouble}",
        )
    number = registered.share.number_of(call.header.topic, item.queue_id)
    return call.with_header(replace(call.header, queue_id=number, **changes))


def _queue_of(call: RemotingCall[Any], item: MappingItem) -> Queue:
    registry, topic = call.broker.registry, call.header.topic
    share = registry.brokers.broker_named(item.broker).share
    return registry.topics.queue_of(topic, share.number_of(topic, item.queue_id))


def _offset_in(response: Response) -> int:
    return int(response.ext["offset"])


def _offset(offset: int) -> Response:
    return Response({"offset": str(offset)})
