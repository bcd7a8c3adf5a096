"""ReceiveMessage pops messages, and waits until the first arrives (ReceiveMessageActivity.java, 5.3.3).

The response is a status, the messages, and the delivery time. Clients require the status and delivery time.
"""

import asyncio
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from mocketmq import invisible_time
from mocketmq.broker.consuming.pops import MAX_POPPED
from mocketmq.broker.consuming.receiver import InFlightMessage
from mocketmq.broker.consuming.selection import MemoryReservation
from mocketmq.broker.filters.filter import SQL92, TAG, Filter, parse_filter, prepare
from mocketmq.clock import US_PER_S, wall_us
from mocketmq.errors import InvalidArgumentError
from mocketmq.grpc_proxy.acknowledging import check_invisible
from mocketmq.grpc_proxy.call import Call, group_of, topic_of
from mocketmq.grpc_proxy.client_limits import LONG_BODY_BYTES
from mocketmq.grpc_proxy.codes import Code, GrpcError, set_status
from mocketmq.grpc_proxy.exchange import Exchange
from mocketmq.grpc_proxy.lite import target
from mocketmq.grpc_proxy.message_out import message_out
from mocketmq.grpc_proxy.messages import message_class, set_us, us_of
from mocketmq.grpc_proxy.routes import routed_topic

SHORTEST_POLL_US: Final = 5 * US_PER_S
"""Polling time for clients that send none (client-java to 5.0.4, Go's SimpleConsumer)."""
LONGEST_POLL_US: Final = 20 * US_PER_S
_MARGIN_S: Final = 0.3
"""Time before a client's deadline at which an empty response is sent; a missed deadline is an error."""
_SQL: Final = 2
_MAX_ATTEMPT: Final = 255

_Answer = message_class("ReceiveMessageResponse")
_giving_back: set[asyncio.Task[None]] = set()


class Converter:
    """Converts messages for clients. Long messages are converted in a thread, one at a time.

    The digest of a long body takes milliseconds, during which hashlib releases the interpreter's lock.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def convert(self, call: Call, one: InFlightMessage) -> bytes:
        """Return the response that carries the message."""
        if len(one.message.body) <= LONG_BODY_BYTES:
            return _response(call, one)
        async with self._lock:
            return await asyncio.to_thread(_response, call, one)


async def answer(
    call: Call, taken: Sequence[InFlightMessage], exchange: Exchange, converter: Converter
) -> None:
    """Send these messages. Messages that cannot be sent become visible again at once. Raises GrpcError."""
    group = group_of(call.request.group)
    try:
        await exchange.send(
            _status(Code.OK, "OK") if taken else _status(Code.MESSAGE_NOT_FOUND, "no new message")
        )
        for one in taken:
            await exchange.send_bytes(await converter.convert(call, one))
        await exchange.send(_delivery_time())
    except BaseException:
        task = asyncio.ensure_future(call.broker.receiver.release(group, taken))
        _giving_back.add(task)  # the event loop keeps only weak references to tasks
        task.add_done_callback(_giving_back.discard)
        raise
    if call.request.auto_renew:
        is_alive = partial(call.clients.is_alive, call.client_id)
        call.broker.renewals.hold(call.client_id, is_alive, group, taken)


def refusal(code: int, message: str) -> Sequence[Any]:
    """Return the responses that refuse a request."""
    return _status(code, message), _delivery_time()


def _status(code: int, message: str) -> Any:
    return set_status(_Answer(), code, message)


def _delivery_time() -> Any:
    now = _Answer()
    set_us(now.delivery_timestamp, wall_us())
    return now


async def take(call: Call, load: MemoryReservation) -> Sequence[InFlightMessage]:
    """Pop up to ``batch_size`` messages, and wait for the first of them as long as the client does."""
    group = group_of(call.request.group)
    request = call.request
    topic = topic_of(request.message_queue.topic)
    invisible_us = _invisible_us(request)
    tag_filter = await _filter(request.filter_expression)
    if len(request.attempt_id) > _MAX_ATTEMPT:
        raise GrpcError(Code.BAD_REQUEST, f"attempt_id is longer than {_MAX_ATTEMPT} characters")
    await routed_topic(call, topic)
    return await call.broker.pops.pop_within_retries(
        await target(call, group, topic),
        min(max(request.batch_size, 1), MAX_POPPED),
        invisible_us,
        wait_s=_wait_s(call),
        tag_filter=tag_filter,
        attempt=request.attempt_id,
        load=load,
    )


def _response(call: Call, one: InFlightMessage) -> bytes:
    out = message_out(call.broker, one.message, call.request.message_queue.topic.name, one.reconsumed)
    out.topic.CopyFrom(call.request.message_queue.topic)
    out.system_properties.receipt_handle = one.handle
    response: bytes = _Answer(message=out).SerializeToString()
    return response


def _invisible_us(request: Any) -> int:
    if request.auto_renew:
        return invisible_time.RENEWED_US
    invisible_us = us_of(request.invisible_duration)
    check_invisible(invisible_us, invisible_time.GRPC_SHORTEST_US)
    return invisible_us


async def _filter(given: Any) -> Filter:
    kind = SQL92 if given.type == _SQL else TAG
    await prepare(kind)
    try:
        if kind == SQL92 and not given.expression.strip():
            raise InvalidArgumentError("filter", given.expression, "an expression of SQL92")
        return parse_filter(given.expression, kind)
    except InvalidArgumentError as error:
        raise GrpcError(Code.ILLEGAL_FILTER_EXPRESSION, str(error)) from None


def poll_us(named_us: int | None, remaining_us: float, request_timeout_us: int) -> float:
    """Compute the polling time as the proxy does, from the request, its deadline and the settings."""
    wanted_us: float = named_us if named_us is not None else remaining_us - request_timeout_us // 2
    return min(max(wanted_us, SHORTEST_POLL_US if named_us is None else 0), LONGEST_POLL_US)


def _wait_s(call: Call) -> float:
    """Return the polling time in real seconds, limited by ``max_long_poll`` and the client's deadline."""
    is_named = call.request.HasField("long_polling_timeout")
    named_us = us_of(call.request.long_polling_timeout) if is_named else None
    remaining_s = math.inf if call.remaining_s is None else call.remaining_s
    timeout_us = call.clients.request_timeout_us(call.client_id)
    wait_us = min(poll_us(named_us, remaining_s * US_PER_S, timeout_us), call.settings.max_long_poll_us)
    return max(min(wait_us / US_PER_S, remaining_s - _MARGIN_S), 0.0)
