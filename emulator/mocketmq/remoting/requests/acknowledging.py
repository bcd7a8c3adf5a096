"""Acks popped messages, and changes their invisible times (docs/protocol/remoting.md §2.11)."""

import base64
import binascii
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from mocketmq.access.needs import Need, to_consume
from mocketmq.broker.consuming.handles import PopHandle
from mocketmq.broker.consuming.pops import pop_retry_topic
from mocketmq.broker.consuming.settler import SettledBy
from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.errors import (
    GroupNotFoundError,
    InvalidArgumentError,
    QueueNotFoundError,
    ReceiptError,
    RefusedError,
)
from mocketmq.failpoint import pass_point
from mocketmq.invisible_time import REMOTING_LONGEST_US
from mocketmq.remoting.access_rule import AccessRule
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.lane import Effect
from mocketmq.remoting.queue_numbers import at_broker
from mocketmq.remoting.request import Reply, Request, RequestFamily, StraightAnswer
from mocketmq.remoting.requests.queue_headers import ConsumerQueueHeader
from mocketmq.remoting.wire.body import JsonObject, object_of, objects_in, text_in, whole_in
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.header import NoHeader
from mocketmq.remoting.wire.pop_handle import IN_ORDER, ExtraInfo, parse_extra_info


class AckMessageHeader(ConsumerQueueHeader):
    """``extra_info`` is the message's handle."""

    extra_info: str
    offset: int


class ChangeInvisibleTimeHeader(AckMessageHeader):
    """``extra_info`` is the message's handle; ``invisible_time`` is in milliseconds."""

    invisible_time: int


MAX_ACKS: Final = 4_096
"""Maximum number of messages that one request may ack."""
_LONGEST_INVISIBLE_MS: Final = REMOTING_LONGEST_US // US_PER_MS
_KINDS: Final = ("0", "1", "2")
"""Kinds of queues in handles: queues of the topic itself, and of its two kinds of retry topics."""


def checked_invisible_us(invisible_ms: int) -> int:
    """Convert an invisible time to microseconds. Raises InvalidArgumentError unless it is 0 to 365 days."""
    if not 0 <= invisible_ms <= _LONGEST_INVISIBLE_MS:
        raise InvalidArgumentError("invisibleTime", invisible_ms, f"0 to {_LONGEST_INVISIBLE_MS} ms")
    return invisible_ms * US_PER_MS


def _needs_of_one(command: Command) -> Iterator[Need]:
    return _needs_of_handle(command.ext.get("topic"), command.ext.get("consumerGroup"))


def _needs_of_batch(command: Command) -> Iterator[Need]:
    for ack in objects_in(object_of(command.body), "acks"):
        yield from _needs_of_handle(text_in(ack, "t"), text_in(ack, "c"))


def _needs_of_handle(topic: str | None, group: str | None) -> Iterator[Need]:
    """The permissions required to acknowledge a popped message; for a retry, those for the popped topic.

    A retry topic of another group is not converted, so that the client needs permissions for that group.
    """
    if topic and group:
        for separator in "_+":
            topic = topic.removeprefix(pop_retry_topic(group, "", separator))
    return to_consume(topic or None, group or None)


_NEEDS: Final = AccessRule(_needs_of_one)
ACKNOWLEDGING: Final = RequestFamily("Acknowledging")


def begin_to_acknowledge(calls: Sequence[RemotingCall[AckMessageHeader]], reply: Reply) -> bool:
    """Begin to ack a message, without waiting for the result."""
    (call,) = calls
    handle, _ = _handle(call)
    call.broker.settler.begin_to_acknowledge(
        call.header.consumer_group, [handle], StraightAnswer(reply, _settled)
    )
    return True


@Request(
    ACKNOWLEDGING,
    RequestCode.ACK_MESSAGE,
    access=_NEEDS,
    fast_path=begin_to_acknowledge,
    effect=Effect.BY_WRITER,
)
async def acknowledge(call: RemotingCall[AckMessageHeader]) -> Response:
    """Ack a message."""
    handle, _ = _handle(call)
    return _acknowledged(await call.broker.settler.acknowledge(call.header.consumer_group, [handle]))


def _settled(settled: SettledBy[PopHandle]) -> Response:
    pass_point("receive.settled")
    return _acknowledged(settled)


def _acknowledged(settled: SettledBy[PopHandle]) -> Response:
    for _, error in settled.failed:
        raise _no_message(error)
    return Response()


@Request(
    ACKNOWLEDGING, RequestCode.BATCH_ACK_MESSAGE, access=AccessRule(_needs_of_batch), effect=Effect.BY_WRITER
)
async def acknowledge_batch(call: RemotingCall[NoHeader]) -> Response:
    """Ack messages. As in RocketMQ, messages that are no longer in flight are ignored."""
    handles: dict[str, list[PopHandle]] = {}
    count = done = 0
    for one in objects_in(object_of(call.command.body), "acks"):
        some = list(_handles(call, one))
        count += len(some)
        _check_count(count)
        handles.setdefault(text_in(one, "c"), []).extend(some)
    for group, some in handles.items():
        with suppress(GroupNotFoundError):
            done += len((await call.broker.settler.acknowledge(group, some)).done)
    if not done:
        raise RemotingError(ResponseCode.NO_MESSAGE, "none of the messages is still in flight in its group")
    return Response()


def _handles(call: RemotingCall[NoHeader], ack: JsonObject) -> Iterator[PopHandle]:
    """Yield handles of messages in one queue. The set bits select offsets, counted from the start offset."""
    group, topic = text_in(ack, "c"), text_in(ack, "t")
    kind = str(ack.get("r", "0"))
    if kind not in _KINDS:
        raise InvalidArgumentError("r", kind, " or ".join(_KINDS))
    if kind != "0":
        topic = pop_retry_topic(group, topic)
    start, pop_ms = whole_in(ack, "so"), whole_in(ack, "pt")
    queue_id = call.channel.share.number_of(topic, whole_in(ack, "q"))
    bits = _bits(ack.get("b") or "")
    _check_count(int.from_bytes(bits).bit_count())
    try:
        first = call.broker.pops.handle(group, topic, queue_id, start, pop_ms)
    except RefusedError:
        return  # nothing to ack, as in RocketMQ
    for index, byte in enumerate(bits):
        for bit in range(8):
            if byte >> bit & 1:
                yield first._replace(queue_offset=start + 8 * index + bit)


def _bits(value: Any) -> bytes:
    """The bytes of Java's BitSet, from base64 or from the list of numbers that the Rust client writes."""
    try:
        return bytes(value) if isinstance(value, list) else base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise InvalidArgumentError("b", value, "bits as base64 or as a list of bytes") from None


def _check_count(count: int) -> None:
    if count > MAX_ACKS:
        raise InvalidArgumentError("acks", "", "", f"a batch acknowledges up to {MAX_ACKS} messages")


@Request(ACKNOWLEDGING, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, access=_NEEDS, effect=Effect.BY_WRITER)
async def change_invisible_time(call: RemotingCall[ChangeInvisibleTimeHeader]) -> Response:
    """Restart a message's invisible time with another duration."""
    header = call.header
    invisible_us = checked_invisible_us(header.invisible_time)
    handle, info = _handle(call)
    is_in_order = info.revive_queue_id == IN_ORDER
    try:
        changed = await call.broker.settler.change(
            header.consumer_group, handle, invisible_us, same_handle=is_in_order
        )
    except ReceiptError as error:
        raise _no_message(error) from None
    late_ms = wall_us() // US_PER_MS - changed.pop_ms if is_in_order else 0
    return Response(
        {
            "popTime": str(changed.pop_ms),
            "invisibleTime": str(header.invisible_time + late_ms),
            "reviveQid": str(info.revive_queue_id),
        }
    )


def _handle(call: RemotingCall[Any]) -> tuple[PopHandle, ExtraInfo]:
    """Make the message's handle, and return it with the parsed ``extra_info``.

    The handle has the pop time of ``extra_info``. Its other parts come from the header.
    """
    header, info = call.header, parse_extra_info(call.header.extra_info)
    try:
        handle = call.broker.pops.handle(
            header.consumer_group, header.topic, header.queue_id, header.offset, info.pop_ms
        )
    except QueueNotFoundError as error:
        error = at_broker(error, call.channel.share)
        raise RemotingError(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
    return handle, info


def _no_message(error: ReceiptError) -> RemotingError:
    return RemotingError(ResponseCode.NO_MESSAGE, str(error))
