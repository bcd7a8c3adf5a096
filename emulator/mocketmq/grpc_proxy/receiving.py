"""ReceiveMessage: pop messages, and wait for the first (ReceiveMessageActivity.java, 5.3.3).

The answer is a status, the messages, and the time of the delivery; clients need the first and the last.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from mocketmq.broker.consuming.load import Load
from mocketmq.broker.consuming.pops import ALL_QUEUES, MAX_POPPED
from mocketmq.broker.consuming.receipts import Taken
from mocketmq.broker.filters.filter import SQL92, TAG, Filter, parse_filter, prepare
from mocketmq.clock import US_PER_S, steady_us, wall_us
from mocketmq.errors import InvalidArgumentError
from mocketmq.grpc_proxy.call import Call
from mocketmq.grpc_proxy.codes import Code, GrpcError, set_status
from mocketmq.grpc_proxy.exchange import Exchange
from mocketmq.grpc_proxy.message_out import message_out
from mocketmq.grpc_proxy.messages import message_class
from mocketmq.grpc_proxy.names import group_of, topic_of
from mocketmq.grpc_proxy.renewals import FIRST_US
from mocketmq.grpc_proxy.routes import routed_topic
from mocketmq.grpc_proxy.settling import check_invisible
from mocketmq.grpc_proxy.times import set_us, us_of

MIN_INVISIBLE_US: Final = 10 * US_PER_S
LONGEST_POLL_US: Final = 20 * US_PER_S
UNNAMED_POLL_US: Final = US_PER_S
"""For clients that do not say how long (client-java to 5.0.4, Go's SimpleConsumer)."""
_MARGIN_S: Final = 0.3
"""Before the client's deadline an empty answer leaves: a deadline that passes is an error to every client."""
_SQL: Final = 2
_MAX_ATTEMPT: Final = 255

_Answer = message_class("ReceiveMessageResponse")
_giving_back: set[asyncio.Task[None]] = set()


async def answer(call: Call, taken: Sequence[Taken], exchange: Exchange) -> None:
    """Answer with these messages; those that cannot be sent are visible again at once. Raises GrpcError."""
    group = group_of(call.request.group)
    send = exchange.send
    try:
        await send(_status(Code.OK, "OK") if taken else _status(Code.MESSAGE_NOT_FOUND, "no new message"))
        for one in taken:
            await send(_Answer(message=_message(call, one)))
        await send(_delivery_time())
    except BaseException:
        task = asyncio.ensure_future(call.broker.consuming.receipts.release(group, taken))
        _giving_back.add(task)  # the loop keeps no task alive
        task.add_done_callback(_giving_back.discard)
        raise
    if call.request.auto_renew:
        call.renewals.hold(call.client_id, group, taken)


def refusal(code: int, message: str) -> Sequence[Any]:
    """The answers to a request that cannot be served."""
    return _status(code, message), _delivery_time()


def _status(code: int, message: str) -> Any:
    return set_status(_Answer(), code, message)


def _delivery_time() -> Any:
    now = _Answer()
    set_us(now.delivery_timestamp, wall_us())
    return now


async def take(call: Call, load: Load) -> Sequence[Taken]:
    """Pop up to ``batch_size`` messages, and wait for the first as long as the client does."""
    group = group_of(call.request.group)
    request, pops = call.request, call.broker.consuming.pops
    topic = topic_of(request.message_queue.topic)
    invisible_us = _invisible_us(request)
    tag_filter = await _filter(request.filter_expression)
    if len(request.attempt_id) > _MAX_ATTEMPT:
        raise GrpcError(Code.BAD_REQUEST, f"attempt_id has more than {_MAX_ATTEMPT} characters")
    end_us = steady_us() + int(_wait_s(call) * US_PER_S)
    await routed_topic(call, topic)
    target = await pops.admit(group, topic, ALL_QUEUES)
    while True:
        popped = await pops.pop(
            target,
            min(max(request.batch_size, 1), MAX_POPPED),
            invisible_us,
            wait_s=max(end_us - steady_us(), 0) / US_PER_S,
            tag_filter=tag_filter,
            ordered=target.group.registered.config.consume_message_orderly,
            attempt=request.attempt_id,
            load=load,
        )
        last = target.group.registered.max_retries
        dead = [one for one in popped.messages if _reconsumed(one) > last]
        if not dead:
            return popped.messages
        await call.broker.consuming.receipts.give_back(group, [one.handle for one in dead], -1)
        if len(dead) < len(popped.messages):
            return [one for one in popped.messages if one not in dead]


def _reconsumed(one: Taken) -> int:
    return one.message.reconsume_times + one.times - 1


def _message(call: Call, one: Taken) -> Any:
    out = message_out(call.broker, one.message, call.request.message_queue.topic.name, _reconsumed(one))
    out.topic.CopyFrom(call.request.message_queue.topic)
    out.system_properties.receipt_handle = one.handle
    return out


def _invisible_us(request: Any) -> int:
    if request.auto_renew:
        return FIRST_US
    invisible_us = us_of(request.invisible_duration)
    check_invisible(invisible_us, MIN_INVISIBLE_US)
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


def _wait_s(call: Call) -> float:
    """Real seconds to wait: as long as the client asks, but so that it is answered before its deadline.

    A client that says nothing waits for the time left to it, less its request timeout, up to a second.
    The proxy lets it wait for up to 20 s (ReceiveMessageActivity.java, 5.3.3), and its close for as long.
    """
    if call.request.HasField("long_polling_timeout"):
        asked_us = max(us_of(call.request.long_polling_timeout), 0)
    elif call.remaining_s is None:
        asked_us = UNNAMED_POLL_US
    else:
        timeout_us = call.clients.request_timeout_us(call.client_id)
        asked_us = min(max(int(call.remaining_s * US_PER_S) - timeout_us, 0), UNNAMED_POLL_US)
    wait_s = min(asked_us, LONGEST_POLL_US) / US_PER_S
    return wait_s if call.remaining_s is None else max(min(wait_s, call.remaining_s - _MARGIN_S), 0.0)
