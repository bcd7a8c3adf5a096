"""SyncLiteSubscription, and lite topics in other RPCs (ClientActivity and ClientProcessor, 5.5.0).

The 5.5.0 proxy serves LitePushConsumer only; this serves LiteSimpleConsumer as well.
"""

from functools import partial
from typing import Any, Final

from mocketmq.broker.consuming.pops import ALL_QUEUES, PopTarget
from mocketmq.broker.lite.subscriptions import LiteStart, StartKind
from mocketmq.errors import InvalidArgumentError
from mocketmq.grpc_proxy.call import Call, group_of, topic_of
from mocketmq.grpc_proxy.codes import Code, GrpcError
from mocketmq.grpc_proxy.messages import message_class
from mocketmq.message.broker_share import ALONE, BrokerShare
from mocketmq.message.message_types import LITE_TOPIC_ALLOWED, MAX_LITE_TOPIC_BYTES, is_lite_topic_name

_ADD, _REMOVE, _REPLACE, _LEAVE = range(4)
"""Values of LiteSubscriptionAction."""
_POLICIES: Final = (StartKind.LAST, StartKind.MIN, StartKind.MAX)
_KINDS: Final = {"offset": StartKind.OFFSET, "tail_n": StartKind.TAIL_N, "timestamp": StartKind.TIMESTAMP}
_CODES: Final = {
    "topic": Code.ILLEGAL_TOPIC,
    "group": Code.ILLEGAL_CONSUMER_GROUP,
    "lite_topic": Code.ILLEGAL_LITE_TOPIC,
}

_Answer = message_class("SyncLiteSubscriptionResponse")


async def sync_lite_subscription(call: Call) -> Any:
    """Change the client's subscription: add or remove lite topics, or name all of them."""
    request, client_id, subscriptions = call.request, call.client_id, call.broker.lite_subscriptions
    parent, group_name = topic_of(request.topic), group_of(request.group)
    names = list(dict.fromkeys(request.lite_topic_set))
    notify = partial(call.clients.notify_unsubscribed, client_id)
    try:
        if request.action == _LEAVE:
            subscriptions.leave(client_id)
            return _Answer()
        group = await subscriptions.admit(group_name, parent)
        if request.action == _ADD:
            await subscriptions.add(client_id, group, names, _start(request), notify)
        elif request.action == _REMOVE:
            await subscriptions.remove(client_id, names)
        elif request.action == _REPLACE:
            subscriptions.replace(client_id, group, names, notify)
        else:
            raise GrpcError(
                Code.BAD_REQUEST,
                f"action is {request.action}; allowed: {_ADD} to {_LEAVE}, of LiteSubscriptionAction",
            )
    except InvalidArgumentError as error:
        raise _refusal(error) from None
    return _Answer()


def _start(request: Any) -> LiteStart:
    if not request.HasField("offset_option"):
        return LiteStart()
    given = request.offset_option
    kind = given.WhichOneof("offset_type")
    if kind == "policy" and given.policy < len(_POLICIES):
        return LiteStart(_POLICIES[given.policy])
    if kind not in _KINDS:
        raise GrpcError(
            Code.BAD_REQUEST,
            "offset_option is of an unknown type; allowed: policy (LAST, MIN, MAX), offset, tail_n,"
            " timestamp",
        )
    return LiteStart(_KINDS[kind], getattr(given, kind))


async def target(call: Call, group_name: str, topic_name: str) -> PopTarget:
    """Return what the client pops: a whole topic, or the lite topics of its subscription.

    For a client that has not sent its settings, for example after a restart of the broker, the kind of its
    group decides. Raises the errors of ``Pops.admit``, and GrpcError.
    """
    group = call.broker.registry.groups.find_group(group_name)
    is_lite_group = group is not None and group.config.lite_parent is not None
    is_lite = call.clients.is_lite(call.client_id)
    if not (is_lite_group if is_lite is None else is_lite):
        if is_lite_group:
            raise GrpcError(
                Code.ILLEGAL_CONSUMER_GROUP,
                f"lite group must use LITE mode: {group_name}. Use a LitePushConsumer or LiteSimpleConsumer,"
                " or another group",
            )
        return await call.broker.pops.admit(group_name, topic_name, ALL_QUEUES, _share(call))
    topic = await call.broker.registry.used_topics.for_reading(topic_name)
    try:
        return await call.broker.lite_subscriptions.target(call.client_id, group_name, topic)
    except InvalidArgumentError as error:
        raise _refusal(error) from None


def _share(call: Call) -> BrokerShare:
    """Return the broker that the client has reached or names, or ``ALONE``. Raises BrokerDownError."""
    brokers, name = call.broker.registry.brokers, call.request.message_queue.broker.name
    if call.local is not None:
        share = call.local.share
    else:
        share = brokers.broker_named(name).share if name in brokers.names else ALONE
    brokers.check_is_reachable(share)
    return share


def set_limits(subscription: Any, quota: int) -> None:
    """Set a lite consumer's limits in its settings. The SDKs enforce these limits themselves."""
    subscription.lite_subscription_quota = min(quota, (1 << 31) - 1)
    subscription.max_lite_topic_size = MAX_LITE_TOPIC_BYTES


def check_lite_topic(system: Any) -> None:
    """Raise GrpcError if the system properties of a message have a lite topic that is not allowed."""
    if system.HasField("lite_topic") and not is_lite_topic_name(system.lite_topic):
        raise GrpcError(
            Code.ILLEGAL_LITE_TOPIC,
            f"lite_topic is {system.lite_topic[:80]!r}; allowed: {LITE_TOPIC_ALLOWED}",
        )


def _refusal(error: InvalidArgumentError) -> GrpcError:
    return GrpcError(_CODES.get(error.field, Code.BAD_REQUEST), str(error))
