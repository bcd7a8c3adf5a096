"""Refuse, instead of ignoring, features of RocketMQ 5.4 and 5.5 that mocketmq does not have.

The fields are those of rocketmq-apis 2.1.2. SDKs show the words of a refusal, so each names what is missing.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mocketmq.grpc_proxy.clients import GrpcClients
from mocketmq.grpc_proxy.codes import Code, GrpcError
from mocketmq.message.properties import LITE_TOPIC, PRIORITY, WITHOUT_EFFECT

_LITE: Final = WITHOUT_EFFECT[LITE_TOPIC]
_PRIORITIES: Final = WITHOUT_EFFECT[PRIORITY]
_LITE_QUOTA, _LITE_TOPIC_SIZE = 2_000, 64
_TYPES: Final = {5: ("LITE", _LITE), 6: ("PRIORITY", _PRIORITIES)}
"""Values of MessageType, each with the reason of its refusal."""
_LEAVE_OUT: Final = "Send the message without it"

UNSERVED: Final[Mapping[str, str]] = {"SyncLiteSubscription": f"; a lite subscription is refused, as {_LITE}"}
"""Added to the words "Method not found" of an RPC."""


def check_message(system: Any) -> None:
    """Raise GrpcError for a message that has a priority or a lite topic, by its system properties."""
    if system.HasField("lite_topic"):
        raise _unsupported(f"lite_topic is {system.lite_topic!r}; allowed: none, as {_LITE}. {_LEAVE_OUT}")
    if system.HasField("priority"):
        raise _unsupported(f"priority is {system.priority}; allowed: none, as {_PRIORITIES}. {_LEAVE_OUT}")
    if system.message_type in _TYPES:
        name, reason = _TYPES[system.message_type]
        raise _unsupported(
            f"message_type is {name}; allowed: NORMAL, FIFO, DELAY or TRANSACTION, as {reason}"
        )


def let_subscribe(subscription: Any) -> None:
    """Give a consumer of lite topics the quota that 5.5.0 gives it, so that it asks for a subscription.

    Without one the SDKs refuse to ask, and name the quota as the reason.
    """
    subscription.lite_subscription_quota = _LITE_QUOTA
    subscription.max_lite_topic_size = _LITE_TOPIC_SIZE


def check_receiver(clients: GrpcClients, client_id: str) -> None:
    """Raise GrpcError for a consumer of lite topics, which must not get messages of the whole topic."""
    if clients.is_lite(client_id):
        raise _unsupported(
            "client_type is LITE_PUSH_CONSUMER or LITE_SIMPLE_CONSUMER; allowed: PUSH_CONSUMER or"
            f" SIMPLE_CONSUMER, as {_LITE}. Use a consumer of whole topics"
        )


def check_settled(messages: Iterable[Any]) -> None:
    """Raise GrpcError for messages of lite topics, in requests that settle them."""
    for each in messages:
        if each.HasField("lite_topic"):
            raise _unsupported(f"lite_topic is {each.lite_topic!r}; allowed: none, as {_LITE}")


def check_change(request: Any) -> None:
    """Raise GrpcError for a new invisible duration of a lite topic's message, or without an attempt."""
    check_settled([request])
    if request.suspend:
        raise _unsupported(
            "suspend is true; allowed: false, as every invisible duration that ends counts as an attempt"
            " (RocketMQ 5.5 can leave it out)"
        )


def _unsupported(sentence: str) -> GrpcError:
    return GrpcError(Code.UNSUPPORTED, sentence)
