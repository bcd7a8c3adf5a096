"""Applies injected faults to RPCs."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mocketmq.broker.broker import Broker
from mocketmq.doors import peer_host
from mocketmq.faults.carrying_out import carry_out
from mocketmq.faults.fault import FaultyRequest, Unanswered
from mocketmq.faults.rule import Operation

if TYPE_CHECKING:  # grpclib is imported when the first client comes
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
"""RPCs that fault rules can name by a word that all doors share."""
_OTHERS: Final = ("QueryAssignment", "RecallMessage", "NotifyClientTermination")


def operations() -> Iterable[str]:
    """Every name of the RPCs that rules can strike."""
    return (*_WORDS, *_WORDS.values(), *_OTHERS)


async def with_faults(
    broker: Broker, rpc: str, exchange: "Exchange", request: Any, act: Callable[[], Awaitable[T]]
) -> T:
    """The outcome of ``act``, faulty if a rule strikes.

    Without an answer to give, it waits until the client gives up.
    """
    if not broker.faults.of_requests:
        return await act()
    faulty = _faulty_request(rpc, exchange, request)
    hit = broker.faults.hit(faulty)
    if hit is None:
        return await act()
    try:
        return await carry_out(broker.faults, hit, faulty, act)
    except Unanswered as unanswered:
        if unanswered.closes:
            exchange.hang_up()
        await asyncio.Event().wait()  # until the deadline, or the connection's end, cancels it
        raise


def _faulty_request(rpc: str, exchange: "Exchange", request: Any) -> FaultyRequest:
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
    return FaultyRequest(
        DOOR,
        names,
        topic.name if topic and topic.name else None,
        group.name if group and group.name else None,
        (exchange.client_id, remote, peer_host(remote)),
        key or None,
    )
