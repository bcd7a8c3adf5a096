"""Refuses features of RocketMQ 5.4 and 5.5 that mocketmq lacks, instead of ignoring them.

The fields are those of rocketmq-apis 2.1.2. SDKs show the text of a refusal, so it names the missing feature.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mocketmq.grpc_proxy.clients import GrpcClients
from mocketmq.grpc_proxy.codes import Code, GrpcError
from mocketmq.message.properties import LITE_TOPIC, WITHOUT_EFFECT

_LITE: Final = WITHOUT_EFFECT[LITE_TOPIC]
_LITE_QUOTA, _LITE_TOPIC_SIZE = 2_000, 64
_LITE_TYPE: Final = 5  # of MessageType
_LEAVE_OUT: Final = "Send the message without it"

UNSERVED: Final[Mapping[str, str]] = {"SyncLiteSubscription": f"; a lite subscription is refused, as {_LITE}"}
"""Explanations added to "Method not found", by RPC."""


def check_message(system: Any) -> None:
    """Raise GrpcError if the system properties of a message contain a lite topic."""
    if system.HasField("lite_topic"):
        raise _unsupported(f"lite_topic is {system.lite_topic!r}; allowed: none, as {_LITE}. {_LEAVE_OUT}")
    if system.message_type == _LITE_TYPE:
        raise _unsupported(
            f"message_type is LITE; allowed: NORMAL, FIFO, DELAY, TRANSACTION or PRIORITY, as {_LITE}"
        )


def let_subscribe(subscription: Any) -> None:
    """Give a consumer of lite topics the quota of 5.5.0, so that its SDK sends its subscription.

    Without a quota the SDK itself refuses the subscription, and misleadingly names the quota as the reason.
    """
    subscription.lite_subscription_quota = _LITE_QUOTA
    subscription.max_lite_topic_size = _LITE_TOPIC_SIZE


def check_receiver(clients: GrpcClients, client_id: str) -> None:
    """Raise GrpcError for a consumer of lite topics, because it must not get messages of the whole topic."""
    if clients.is_lite(client_id):
        raise _unsupported(
            "client_type is LITE_PUSH_CONSUMER or LITE_SIMPLE_CONSUMER; allowed: PUSH_CONSUMER or"
            f" SIMPLE_CONSUMER, as {_LITE}. Use a consumer of whole topics"
        )


def check_acknowledged(messages: Iterable[Any]) -> None:
    """Raise GrpcError if entries of a request with receipt handles name a lite topic."""
    for each in messages:
        if each.HasField("lite_topic"):
            raise _unsupported(f"lite_topic is {each.lite_topic!r}; allowed: none, as {_LITE}")


def check_change(request: Any) -> None:
    """Raise GrpcError for a change of invisible duration that names a lite topic or suspends the message."""
    check_acknowledged([request])
    if request.suspend:
        raise _unsupported(
            "suspend is true; allowed: false, as every invisible duration that ends counts as an attempt"
            " (RocketMQ 5.5 can leave it out)"
        )


def _unsupported(sentence: str) -> GrpcError:
    return GrpcError(Code.UNSUPPORTED, sentence)
