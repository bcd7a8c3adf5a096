"""Serves an RPC, and injects the fault of a rule that matches it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mocketmq.broker.broker import Broker
from mocketmq.errors import EmulatorError
from mocketmq.faults.injector import RequestAttributes, Unanswered
from mocketmq.faults.rule import Operation
from mocketmq.hosts import peer_host

if TYPE_CHECKING:  # grpclib is imported when the first client connects
    from mocketmq.grpc_proxy.exchange import Exchange

DOOR: Final = "grpc"
T = TypeVar("T")

_WORDS: Final[Mapping[str, Operation]] = {
    "SendMessage": "send",
    "ReceiveMessage": "receive",
    "AckMessage": "ack",
    "ForwardMessageToDeadLetterQueue": "give-back",
    "ChangeInvisibleDuration": "extend",
    "EndTransaction": "end-transaction",
    "QueryRoute": "route",
    "Heartbeat": "heartbeat",
}
"""RPCs for which fault rules also accept a name that all protocols share."""
_OTHERS: Final = ("QueryAssignment", "RecallMessage", "NotifyClientTermination", "SyncLiteSubscription")


def operations() -> Iterable[str]:
    """Return all names of RPCs that fault rules can match."""
    return (*_WORDS, *_WORDS.values(), *_OTHERS)


async def serve_with_faults(
    broker: Broker, rpc: str, exchange: "Exchange", request: Any, act: Callable[[], Awaitable[T]]
) -> T:
    """Run ``act`` with any injected fault applied, and return its result.

    If the fault drops the response, wait until the client gives up.
    """
    if not broker.faults.of_requests:
        return await act()
    attributes = _request_attributes(broker, rpc, exchange, request)
    injection = broker.faults.injection_for(attributes)
    if injection is None:
        return await act()
    try:
        return await broker.faults.carry_out(injection, attributes, act)
    except Unanswered as unanswered:
        if unanswered.closes:
            exchange.hang_up()
        await asyncio.Event().wait()  # until the deadline, or the connection's end, cancels it
        raise


def _request_attributes(broker: Broker, rpc: str, exchange: "Exchange", request: Any) -> RequestAttributes:
    names = (_WORDS[rpc], rpc) if rpc in _WORDS else (rpc,)
    remote = exchange.remote
    key = None
    if rpc == "SendMessage":
        topic = request.messages[0].topic if request.messages else None
        key = request.messages[0].system_properties.message_id if request.messages else None
    elif rpc == "ReceiveMessage":
        topic = request.message_queue.topic
    else:
        topic = getattr(request, "topic", None)
    group = getattr(request, "group", None)
    return RequestAttributes(
        DOOR,
        names,
        topic.name if topic and topic.name else None,
        group.name if group and group.name else None,
        (exchange.client_id, remote, peer_host(remote)),
        key or None,
        broker.registry.brokers.only_name
        or (exchange.local.name if exchange.local else _broker_name(broker, request)),
    )


def _broker_name(broker: Broker, request: Any) -> str | None:
    """Return the broker that a request names in its queue or in its first receipt handle, if any."""
    queue = getattr(request, "message_queue", None)
    if queue is not None:
        return queue.broker.name or None
    entries = getattr(request, "entries", None)
    handle = entries[0].receipt_handle if entries else getattr(request, "receipt_handle", "")
    registered = None
    with suppress(EmulatorError):  # the request will be refused for the same reason
        registered = broker.settler.broker_of(request.group.name, handle) if handle else None
    return None if registered is None else registered.name
