"""Pop, ack, change invisible times, peek (docs/protocol/remoting.md §2.11)."""

import base64
import binascii
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from mocketmq.access.accounts import Need
from mocketmq.broker.consuming.handles import PopHandle
from mocketmq.broker.consuming.pops import MAX_POPPED, Popped, PopTarget, pop_retry_topic
from mocketmq.broker.consuming.receipts import SettledBy, Taken
from mocketmq.broker.filters.filter import EVERYTHING, KINDS, TAG, Filter, parse_filter
from mocketmq.clock import US_PER_MS, US_PER_S, wall_us
from mocketmq.errors import (
    GroupNotFoundError,
    InvalidArgumentError,
    QueueNotFoundError,
    ReceiptError,
    RefusedError,
)
from mocketmq.failpoint import pass_point
from mocketmq.message.message import StoredMessage
from mocketmq.message.properties import (
    FIRST_POP_TIME,
    MAX_PROPERTIES_BYTES,
    POP_CK,
    decode_properties,
    encode_properties,
)
from mocketmq.remoting.access_rule import KEY, AccessRule, consumes, to_consume
from mocketmq.remoting.lane import Effect
from mocketmq.remoting.request import (
    LongPoll,
    RemotingCall,
    Reply,
    Request,
    RequestFamily,
    Response,
    StraightAnswer,
)
from mocketmq.remoting.wire.body import MAX_TEXT, JsonObject, object_of, objects_in, text_in, whole_in
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.errors import RemotingError
from mocketmq.remoting.wire.header import Int32, NoHeader
from mocketmq.remoting.wire.pop_handle import (
    IN_ORDER,
    NOT_IN_ORDER,
    ExtraInfo,
    PoppedQueue,
    message_offsets,
    order_counts,
    parse_extra_info,
    popped_queue,
    start_offsets,
)
from mocketmq.remoting.wire.record import encode_record
from mocketmq.store.queue import Queue


class PopMessageHeader(NamedTuple):
    """Times in milliseconds. A negative ``queue_id`` means all queues; ``exp`` is the filter."""

    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    invisible_time: int
    poll_time: int
    init_mode: Int32
    born_time: int = 0
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str = ""


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


class NotificationHeader(NamedTuple):
    """Fields as in :class:`PopMessageHeader`. ``poll_time`` is how long to wait, in milliseconds."""

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: int
    born_time: int = 0
    order: bool = False
    attempt_id: str = ""


class PeekMessageHeader(NamedTuple):
    """Fields as in :class:`PopMessageHeader`, without times."""

    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32


class PollingInfoHeader(NamedTuple):
    """A negative ``queue_id`` means all queues."""

    consumer_group: str
    topic: str
    queue_id: Int32


MAX_ACKS: Final = 4_096
"""Messages that one request may ack."""
_MAX_INVISIBLE_MS: Final = 31_536_000_000
"""A year."""
_TOO_LATE_MS: Final = 500
"""A pop that comes this much after its poll time is over is refused: nobody waits for its answer."""
_FROM_START: Final = 0
_KINDS: Final = ("0", "1", "2")
"""Kinds of queues in handles: the topic's own, and those of its two retry topics."""


async def pop(call: RemotingCall[PopMessageHeader]) -> Response:
    """Take messages, which nobody else gets until their invisible time is over."""
    header = call.header
    now_ms = wall_us() // US_PER_MS
    if now_ms - (header.born_time or now_ms) - header.poll_time > _TOO_LATE_MS:
        remark = f"the broker[{_address(call)}] pop message is timeout too much"
        return Response(_NO_TIMES, code=ResponseCode.POLLING_TIMEOUT, remark=remark)
    if not 0 < header.max_msg_nums <= MAX_POPPED:
        raise RemotingError(
            ResponseCode.INVALID_PARAMETER,
            f"the broker[{_address(call)}] pop message's num is greater than {MAX_POPPED}"
            if header.max_msg_nums > 0
            else f"maxMsgNums is {header.max_msg_nums}; allowed: 1 to {MAX_POPPED}",
        )
    if len(header.attempt_id) > MAX_TEXT:  # each queue keeps that of the last pop in order
        raise InvalidArgumentError("attemptId", header.attempt_id, f"up to {MAX_TEXT} characters")
    invisible_us = _invisible_us(header.invisible_time)
    target = await _target(call)
    wait_s = _wait_s(header.born_time, header.poll_time)
    popped = await call.broker.consuming.pops.pop(
        target,
        header.max_msg_nums,
        invisible_us,
        wait_s=wait_s if call.may_wait else 0.0,
        tag_filter=_filter_of_pop(header),
        ordered=header.order,
        attempt=header.attempt_id,
        from_end=header.init_mode != _FROM_START,
    )
    if popped.messages:
        return _answer(call, popped)
    is_full = wait_s > 0 and not call.may_wait
    code = ResponseCode.POLLING_FULL if is_full else ResponseCode.POLLING_TIMEOUT
    return _found_nothing(header, code)


async def _target(call: RemotingCall[Any]) -> PopTarget:
    header = call.header
    try:
        return await call.broker.consuming.pops.admit(header.consumer_group, header.topic, header.queue_id)
    except QueueNotFoundError as error:
        raise RemotingError(ResponseCode.INVALID_PARAMETER, str(error)) from None


def _filter_of_pop(header: PopMessageHeader) -> Filter:
    kind = header.exp_type or TAG
    try:
        if header.exp and kind not in KINDS:
            raise InvalidArgumentError("expType", kind, " or ".join(KINDS))
        return parse_filter(header.exp, kind) if header.exp else EVERYTHING
    except InvalidArgumentError as error:
        raise RemotingError(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {error}"
        ) from None


def _answer(call: RemotingCall[PopMessageHeader], popped: Popped) -> Response:
    header, taken = call.header, popped.messages
    offsets: dict[PoppedQueue, list[int]] = {}
    counts, records = [], []
    for one in taken:
        queue = call.broker.registry.topics.queue(one.message.queue_key)
        named, offset = popped_queue(queue.topic, queue.queue_id), one.message.queue_offset
        offsets.setdefault(named, []).append(offset)
        counts.append((named, offset, one.times - 1))
        records.append(_record(call, one, queue, offsets[named][0]))
    ext = {
        **_times(taken[0].pop_ms, header.invisible_time, popped.rest, header.order),
        "startOffsetInfo": start_offsets(offsets),
        "msgOffsetInfo": message_offsets(offsets),
    }
    if header.order:
        ext["orderCountInfo"] = order_counts(counts)
    return Response(ext, b"".join(records), remark="FOUND")


def _record(call: RemotingCall[PopMessageHeader], one: Taken, queue: Queue, start_offset: int) -> bytes:
    """A popped message. A retry gets the topic that was popped, and a handle, which clients cannot make."""
    header, message = call.header, one.message
    if not header.order:  # else said in orderCountInfo
        message = _retried(call, one)
    if queue.topic != header.topic:
        named = popped_queue(queue.topic, queue.queue_id)
        handle = ExtraInfo(
            start_offset, one.pop_ms, header.invisible_time, NOT_IN_ORDER, named, message.queue_offset
        )
        message = _with(message, {POP_CK: handle.text()})
    return encode_record(message, header.topic, queue.queue_id, call.channel.store_host, call.command.version)


def _retried(call: RemotingCall[Any], one: Taken) -> StoredMessage:
    """The message as upstream stores retries: with their number, and the time of the first pop."""
    message = one.message
    if one.times == 1:
        return message
    first_ms = (one.first_taken_us - call.broker.clock.from_wall(0)) // US_PER_MS
    message = message._replace(reconsume_times=message.reconsume_times + one.times - 1)
    return _with(message, {FIRST_POP_TIME: str(first_ms)})


def _with(message: StoredMessage, properties: dict[str, str]) -> StoredMessage:
    """The message with these properties in place of its own of the same names."""
    given = decode_properties(message.properties) | properties
    return message._replace(properties=encode_properties(given, 2 * MAX_PROPERTIES_BYTES))


def _found_nothing(header: PopMessageHeader, code: ResponseCode) -> Response:
    ext = _times(wall_us() // US_PER_MS, header.invisible_time, 0, header.order)
    return Response(ext, code=code, remark="NO_MESSAGE_IN_QUEUE")


def _times(pop_ms: int, invisible_ms: int, rest: int, is_in_order: bool) -> dict[str, str]:
    return {
        "popTime": str(pop_ms),
        "invisibleTime": str(invisible_ms),
        "reviveQid": str(IN_ORDER if is_in_order else NOT_IN_ORDER),
        "restNum": str(rest),
    }


_NO_TIMES: Final = _times(0, 0, 0, is_in_order=False)


def _wait_s(born_ms: int, poll_ms: int) -> float:
    """Real seconds that are left of the poll time, by the client's clock; at most the poll time."""
    left_ms = poll_ms
    if born_ms:
        left_ms = min(poll_ms, born_ms + poll_ms - wall_us() // US_PER_MS)
    return max(left_ms, 0) * US_PER_MS / US_PER_S


def _invisible_us(invisible_ms: int) -> int:
    if not 0 <= invisible_ms <= _MAX_INVISIBLE_MS:
        raise InvalidArgumentError("invisibleTime", invisible_ms, f"0 to {_MAX_INVISIBLE_MS} ms")
    return invisible_ms * US_PER_MS


def _address(call: RemotingCall[Any]) -> str:
    return call.channel.advertised.rpartition(":")[0]


async def acknowledge(call: RemotingCall[AckMessageHeader]) -> Response:
    """Ack a message."""
    handle, _ = _handle(call)
    return _acknowledged(
        await call.broker.consuming.receipts.acknowledge(call.header.consumer_group, [handle])
    )


def begin_to_acknowledge(call: RemotingCall[AckMessageHeader], reply: Reply) -> bool:
    """As ``acknowledge``, without waiting."""
    handle, _ = _handle(call)
    call.broker.consuming.receipts.begin_to_acknowledge(
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
            done += len((await call.broker.consuming.receipts.acknowledge(group, some)).done)
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
    invisible_us = _invisible_us(header.invisible_time)
    handle, info = _handle(call)
    is_in_order = info.revive_queue_id == IN_ORDER
    try:
        changed = await call.broker.consuming.receipts.change(
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


async def notify(call: RemotingCall[NotificationHeader]) -> Response:
    """Wait until there is something to pop, and answer whether there is."""
    header = call.header
    wait_s = _wait_s(header.born_time, header.poll_time)
    has_message = await call.broker.consuming.pops.has_messages(
        await _target(call),
        wait_s=wait_s if call.may_wait else 0.0,
        ordered=header.order,
        attempt=header.attempt_id,
    )
    is_full = wait_s > 0 and not call.may_wait and not has_message
    return Response({"hasMsg": str(has_message).lower(), "pollingFull": str(is_full).lower()})


async def peek(call: RemotingCall[PeekMessageHeader]) -> Response:
    """Answer with messages that could be popped, and leave them for others."""
    header = call.header
    target = await _target(call)
    peeked = await call.broker.consuming.pops.peek(target, min(max(header.max_msg_nums, 1), MAX_POPPED))
    records = [
        encode_record(
            _retried(call, one),
            header.topic,
            call.broker.registry.topics.queue(one.message.queue_key).queue_id,
            call.channel.store_host,
            call.command.version,
        )
        for one in peeked.messages
    ]
    ext = _NO_TIMES | {"restNum": str(peeked.rest)}
    if not records:
        return Response(ext, code=ResponseCode.PULL_NOT_FOUND, remark="NO_MESSAGE_IN_QUEUE")
    return Response(ext, b"".join(records), remark="FOUND")


async def polling_info(call: RemotingCall[PollingInfoHeader]) -> Response:
    """Answer with the number of pops that wait, at all queues or at one."""
    return Response({"pollingNum": str(call.broker.consuming.pops.waiting(await _target(call)))})


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


_CONSUMES: Final = consumes("topic", "consumerGroup")
_SETTLES: Final = AccessRule(_to_settle)

POPPING: Final = RequestFamily(
    "Popping",
    [
        Request(
            RequestCode.POP_MESSAGE,
            PopMessageHeader,
            pop,
            access=_CONSUMES,
            long_poll=LongPoll.ANSWERED_AT_ONCE,
            effect=Effect.AT_ONCE,
        ),
        Request(
            RequestCode.ACK_MESSAGE,
            AckMessageHeader,
            acknowledge,
            access=_SETTLES,
            straight=begin_to_acknowledge,
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
        Request(
            RequestCode.NOTIFICATION,
            NotificationHeader,
            notify,
            access=_CONSUMES,
            long_poll=LongPoll.ANSWERED_AT_ONCE,
            effect=Effect.AT_ONCE,
        ),
        Request(RequestCode.PEEK_MESSAGE, PeekMessageHeader, peek, access=_CONSUMES, effect=Effect.AT_ONCE),
        Request(RequestCode.POLLING_INFO, PollingInfoHeader, polling_info, access=KEY),
    ],
)
