"""Pops messages, waits for messages to pop, and peeks (docs/protocol/remoting.md §2.11)."""

from typing import Any, Final

from mocketmq.broker.consuming.pops import MAX_POPPED, Popped, PopTarget
from mocketmq.broker.consuming.receiver import InFlightMessage
from mocketmq.broker.filters.filter import EVERYTHING, KINDS, TAG, Filter, parse_filter
from mocketmq.clock import US_PER_MS, US_PER_S, wall_us
from mocketmq.errors import InvalidArgumentError, QueueNotFoundError
from mocketmq.message.message import StoredMessage
from mocketmq.message.properties import (
    FIRST_POP_TIME,
    MAX_PROPERTIES_BYTES,
    POP_CK,
    decode_properties,
    encode_properties,
)
from mocketmq.remoting.access_rule import consumes, reads
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.lane import Effect
from mocketmq.remoting.queue_numbers import at_broker
from mocketmq.remoting.request import LongPoll, Request, RequestFamily
from mocketmq.remoting.requests.acknowledging import checked_invisible_us
from mocketmq.remoting.requests.queue_headers import ConsumerQueueHeader
from mocketmq.remoting.wire.body import MAX_TEXT
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.header import Int32
from mocketmq.remoting.wire.pop_handle import (
    IN_ORDER,
    NOT_IN_ORDER,
    ExtraInfo,
    PoppedQueue,
    message_offsets,
    order_counts,
    popped_queue,
    start_offsets,
)
from mocketmq.remoting.wire.record import encode_record
from mocketmq.store.queue import Queue


class PopMessageHeader(ConsumerQueueHeader):
    """Times are in milliseconds. A negative ``queue_id`` means all queues; ``exp`` is the filter."""

    max_msg_nums: Int32
    invisible_time: int
    poll_time: int
    init_mode: Int32
    born_time: int = 0
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str = ""


class NotificationHeader(ConsumerQueueHeader):
    """Fields are as in :class:`PopMessageHeader`. ``poll_time`` is the time to wait, in milliseconds."""

    poll_time: int
    born_time: int = 0
    order: bool = False
    attempt_id: str = ""


class PeekMessageHeader(ConsumerQueueHeader):
    """Fields are as in :class:`PopMessageHeader`, without the times."""

    max_msg_nums: Int32


class PollingInfoHeader(ConsumerQueueHeader):
    """A negative ``queue_id`` means all queues."""


_TOO_LATE_MS: Final = 500
"""A pop received this long after the end of its poll time is refused: the client no longer waits for it."""
_FROM_START: Final = 0


_CONSUMES: Final = consumes("topic", "consumerGroup")
POPPING: Final = RequestFamily("Popping")


@Request(
    POPPING,
    RequestCode.POP_MESSAGE,
    access=_CONSUMES,
    long_poll=LongPoll.ANSWERED_AT_ONCE,
    effect=Effect.AT_ONCE,
)
async def pop(call: RemotingCall[PopMessageHeader]) -> Response:
    """Pop messages. No other consumer gets them until their invisible time is over."""
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
    if len(header.attempt_id) > MAX_TEXT:  # bounded, because each queue keeps the id of its last ordered pop
        raise InvalidArgumentError("attemptId", header.attempt_id, f"up to {MAX_TEXT} characters")
    invisible_us = checked_invisible_us(header.invisible_time)
    target = await _target(call)
    wait_s = _wait_s(call)
    popped = await call.broker.pops.pop(
        target,
        header.max_msg_nums,
        invisible_us,
        wait_s=wait_s if call.may_wait else 0.0,
        tag_filter=_filter_of_pop(header),
        ordered=header.order,
        attempt=header.attempt_id,
        from_end=header.init_mode != _FROM_START,
        load=call.channel.load(),
    )
    if popped.messages:
        return _answer(call, popped)
    is_full = wait_s > 0 and not call.may_wait
    code = ResponseCode.POLLING_FULL if is_full else ResponseCode.POLLING_TIMEOUT
    return _found_nothing(header, code)


async def _target(call: RemotingCall[Any]) -> PopTarget:
    header = call.header
    try:
        return await call.broker.pops.admit(
            header.consumer_group, header.topic, header.queue_id, call.channel.share
        )
    except QueueNotFoundError as error:
        error = at_broker(error, call.channel.share)
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
        named, offset = _named(call, queue), one.message.queue_offset
        offsets.setdefault(named, []).append(offset)
        counts.append((named, offset, one.times - 1))
        records.append(_record(call, one, queue, offsets[named][0]))
    for some in offsets.values():
        some.sort()  # clients expect this order, but a pop by priority puts redeliveries last
    ext = {
        **_times(taken[0].pop_ms, header.invisible_time, popped.rest, header.order),
        "startOffsetInfo": start_offsets(offsets),
        "msgOffsetInfo": message_offsets(offsets),
    }
    if header.order:
        ext["orderCountInfo"] = order_counts(counts)
    return Response(ext, b"".join(records), remark="FOUND")


def _record(
    call: RemotingCall[PopMessageHeader], one: InFlightMessage, queue: Queue, start_offset: int
) -> bytes:
    """Encode a popped message.

    A retry gets the name of the popped topic, and a handle, because clients cannot compute the handle.
    """
    header, message = call.header, one.message
    if not header.order:  # ordered pops have the number of retries in orderCountInfo
        message = _retried(call, one)
    if queue.topic != header.topic:
        named = _named(call, queue)
        handle = ExtraInfo(
            start_offset, one.pop_ms, header.invisible_time, NOT_IN_ORDER, named, message.queue_offset
        )
        message = _with(message, {POP_CK: handle.text(call.channel.share.name)})
    return encode_record(
        *(message, header.topic, _named(call, queue).queue_id, call.channel.store_host, call.command.version)
    )


def _named(call: RemotingCall[Any], queue: Queue) -> PoppedQueue:
    return popped_queue(queue.topic, call.channel.share.queue_id(queue.topic, queue.queue_id))


def _retried(call: RemotingCall[Any], one: InFlightMessage) -> StoredMessage:
    """The message in RocketMQ's form for a retry, with the number of retries and the first pop time."""
    message = one.message
    if one.times == 1:
        return message
    first_ms = (one.first_taken_us - call.broker.clock.from_wall(0)) // US_PER_MS
    message = message._replace(reconsume_times=message.reconsume_times + one.times - 1)
    return _with(message, {FIRST_POP_TIME: str(first_ms)})


def _with(message: StoredMessage, properties: dict[str, str]) -> StoredMessage:
    """The message with these properties added. They replace existing properties of the same names."""
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


def _wait_s(call: RemotingCall[PopMessageHeader] | RemotingCall[NotificationHeader]) -> float:
    """Real seconds left of the poll time by the client's clock, limited by ``max_long_poll``."""
    born_ms, poll_ms = call.header.born_time, call.header.poll_time
    left_ms = poll_ms
    if born_ms:
        left_ms = min(poll_ms, born_ms + poll_ms - wall_us() // US_PER_MS)
    return min(max(left_ms, 0) * US_PER_MS, call.settings.max_long_poll_us) / US_PER_S


def _address(call: RemotingCall[Any]) -> str:
    return call.channel.advertised.rpartition(":")[0]


@Request(
    POPPING,
    RequestCode.NOTIFICATION,
    access=_CONSUMES,
    long_poll=LongPoll.ANSWERED_AT_ONCE,
    effect=Effect.AT_ONCE,
)
async def notify(call: RemotingCall[NotificationHeader]) -> Response:
    """Wait until there are messages to pop, and return whether there are."""
    header = call.header
    wait_s = _wait_s(call)
    has_message = await call.broker.pops.has_messages(
        await _target(call),
        wait_s=wait_s if call.may_wait else 0.0,
        ordered=header.order,
        attempt=header.attempt_id,
    )
    is_full = wait_s > 0 and not call.may_wait and not has_message
    return Response({"hasMsg": str(has_message).lower(), "pollingFull": str(is_full).lower()})


@Request(
    POPPING,
    RequestCode.PEEK_MESSAGE,
    access=consumes("topic", "consumerGroup", is_topic_first=True),
    effect=Effect.AT_ONCE,
    is_reading=True,
)
async def peek(call: RemotingCall[PeekMessageHeader]) -> Response:
    """Return messages that could be popped, without popping them."""
    header = call.header
    target = await _target(call)
    limit = min(max(header.max_msg_nums, 1), MAX_POPPED)
    peeked = await call.broker.pops.peek(target, limit, call.channel.load())
    records = [
        encode_record(
            _retried(call, one),
            header.topic,
            _named(call, call.broker.registry.topics.queue(one.message.queue_key)).queue_id,
            call.channel.store_host,
            call.command.version,
        )
        for one in peeked.messages
    ]
    ext = _NO_TIMES | {"restNum": str(peeked.rest)}
    if not records:
        return Response(ext, code=ResponseCode.PULL_NOT_FOUND, remark="NO_MESSAGE_IN_QUEUE")
    return Response(ext, b"".join(records), remark="FOUND")


@Request(POPPING, RequestCode.POLLING_INFO, access=reads(group="consumerGroup", topic="topic"))
async def polling_info(call: RemotingCall[PollingInfoHeader]) -> Response:
    """Return the number of waiting pops, for all queues or for one."""
    return Response({"pollingNum": str(call.broker.pops.waiting(await _target(call)))})
