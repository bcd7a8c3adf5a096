"""Ack popped messages, and change their invisible times (docs/protocol/remoting.md §2.11)."""

import base64
import binascii
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from mocketmq.access.accounts import Need
from mocketmq.broker.consuming.handles import PopHandle
from mocketmq.broker.consuming.pops import pop_retry_topic
from mocketmq.broker.consuming.receiver import SettledBy
from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.errors import (
    GroupNotFoundError,
    InvalidArgumentError,
    QueueNotFoundError,
    ReceiptError,
    RefusedError,
)
from mocketmq.failpoint import pass_point
from mocketmq.remoting.access_rule import AccessRule, to_consume
from mocketmq.remoting.lane import Effect
from mocketmq.remoting.request import (
    RemotingCall,
    Reply,
    Request,
    Response,
    StraightAnswer,
)
from mocketmq.remoting.wire.body import JsonObject, object_of, objects_in, text_in, whole_in
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.errors import RemotingError
from mocketmq.remoting.wire.header import Int32, NoHeader
from mocketmq.remoting.wire.pop_handle import (
    IN_ORDER,
    ExtraInfo,
    parse_extra_info,
)


class AckMessageHeader(NamedTuple):
    """``extra_info`` is the message's handle."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: int


class ChangeInvisibleTimeHeader(NamedTuple):
    """``extra_info`` is the message's handle; ``invisible_time`` is in milliseconds."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: int
    invisible_time: int


MAX_ACKS: Final = 4_096
"""Messages that one request may ack."""
_MAX_INVISIBLE_MS: Final = 31_536_000_000
"""A year."""
_KINDS: Final = ("0", "1", "2")
"""Kinds of queues in handles: the topic's own, and those of its two retry topics."""


def checked_invisible_us(invisible_ms: int) -> int:
    """In microseconds. Raises InvalidArgumentError for more than a year."""
    if not 0 <= invisible_ms <= _MAX_INVISIBLE_MS:
        raise InvalidArgumentError("invisibleTime", invisible_ms, f"0 to {_MAX_INVISIBLE_MS} ms")
    return invisible_ms * US_PER_MS


async def acknowledge(call: RemotingCall[AckMessageHeader]) -> Response:
    """Ack a message."""
    handle, _ = _handle(call)
    return _acknowledged(
        await call.broker.consuming.receiver.acknowledge(call.header.consumer_group, [handle])
    )


def begin_to_acknowledge(call: RemotingCall[AckMessageHeader], reply: Reply) -> bool:
    """As ``acknowledge``, without waiting."""
    handle, _ = _handle(call)
    call.broker.consuming.receiver.begin_to_acknowledge(
        call.header.consumer_group, [handle], StraightAnswer(call.command, reply, _settled)
    )
    return True


def _settled(settled: SettledBy[PopHandle]) -> Response:
    pass_point("receive.settled")
    return _acknowledged(settled)


def _acknowledged(settled: SettledBy[PopHandle]) -> Response:
    for _, error in settled.failed:
        raise _no_message(error)
    return Response()


async def acknowledge_batch(call: RemotingCall[NoHeader]) -> Response:
    """Ack messages. As upstream, those that are not in flight any more are ignored."""
    handles: dict[str, list[PopHandle]] = {}
    count = done = 0
    for one in objects_in(object_of(call.command.body), "acks"):
        some = list(_handles(call, one))
        count += len(some)
        _check_count(count)
        handles.setdefault(text_in(one, "c"), []).extend(some)
    for group, some in handles.items():
        with suppress(GroupNotFoundError):
            done += len((await call.broker.consuming.receiver.acknowledge(group, some)).done)
    if not done:
        raise RemotingError(ResponseCode.NO_MESSAGE, "none of the messages is held by its group any more")
    return Response()


def _handles(call: RemotingCall[NoHeader], ack: JsonObject) -> Iterator[PopHandle]:
    """Handles of the messages of one queue whose bits are set, counted from its start offset."""
    group, topic = text_in(ack, "c"), text_in(ack, "t")
    kind = str(ack.get("r", "0"))
    if kind not in _KINDS:
        raise InvalidArgumentError("r", kind, " or ".join(_KINDS))
    if kind != "0":
        topic = pop_retry_topic(group, topic)
    start, queue_id, pop_ms = whole_in(ack, "so"), whole_in(ack, "q"), whole_in(ack, "pt")
    bits = _bits(ack.get("b") or "")
    _check_count(int.from_bytes(bits).bit_count())
    try:
        first = call.broker.consuming.pops.handle(group, topic, queue_id, start, pop_ms)
    except RefusedError:
        return  # as upstream: nothing is there to ack
    for index, byte in enumerate(bits):
        for bit in range(8):
            if byte >> bit & 1:
                yield first._replace(queue_offset=start + 8 * index + bit)


def _bits(value: Any) -> bytes:
    """The bytes of Java's BitSet: base64, or numbers as the Rust client writes them."""
    try:
        return bytes(value) if isinstance(value, list) else base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise InvalidArgumentError("b", value, "bits as base64 or as a list of bytes") from None


def _check_count(count: int) -> None:
    if count > MAX_ACKS:
        raise InvalidArgumentError("acks", "", "", f"a batch acknowledges up to {MAX_ACKS} messages")


async def change_invisible_time(call: RemotingCall[ChangeInvisibleTimeHeader]) -> Response:
    """Let a message's invisible time begin anew, with another length."""
    header = call.header
    invisible_us = checked_invisible_us(header.invisible_time)
    handle, info = _handle(call)
    is_in_order = info.revive_queue_id == IN_ORDER
    try:
        changed = await call.broker.consuming.receiver.change(
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
    """A message's handle. Of the client's own handle, only the pop time matters."""
    header, info = call.header, parse_extra_info(call.header.extra_info)
    try:
        handle = call.broker.consuming.pops.handle(
            header.consumer_group, header.topic, header.queue_id, header.offset, info.pop_ms
        )
    except QueueNotFoundError as error:
        raise RemotingError(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
    return handle, info


def _no_message(error: ReceiptError) -> RemotingError:
    return RemotingError(ResponseCode.NO_MESSAGE, str(error))


def _to_settle(command: Command) -> Iterator[Need]:
    return _settling(command.ext.get("topic"), command.ext.get("consumerGroup"))


def _to_settle_batch(command: Command) -> Iterator[Need]:
    for ack in objects_in(object_of(command.body), "acks"):
        yield from _settling(text_in(ack, "t"), text_in(ack, "c"))


def _settling(topic: str | None, group: str | None) -> Iterator[Need]:
    """Permissions to settle what the group popped; one of its retries takes those of the topic popped from.

    Nothing is read under a retry's name: it may be another group's own.
    """
    if topic and group:
        for separator in "_+":
            topic = topic.removeprefix(pop_retry_topic(group, "", separator))
    return to_consume(topic, group)


_SETTLES: Final = AccessRule(_to_settle)

SETTLING: Final = [
    Request(
        RequestCode.ACK_MESSAGE,
        AckMessageHeader,
        acknowledge,
        access=_SETTLES,
        fast_path=begin_to_acknowledge,
        effect=Effect.BY_WRITER,
    ),
    Request(
        RequestCode.BATCH_ACK_MESSAGE,
        NoHeader,
        acknowledge_batch,
        access=AccessRule(_to_settle_batch),
        effect=Effect.BY_WRITER,
    ),
    Request(
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
        ChangeInvisibleTimeHeader,
        change_invisible_time,
        access=_SETTLES,
        effect=Effect.BY_WRITER,
    ),
]
"""Requests of the family of pops."""
