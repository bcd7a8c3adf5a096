"""Telemetry, Heartbeat and NotifyClientTermination, which register clients and send them settings.

Unlike RocketMQ's proxy (ClientActivity.java, 5.3.3), this serves clients that have not sent their settings,
because SDKs depend on that after a restart of the broker.
"""

import re
from typing import Any, Final

import msgspec

from mocketmq.broker.broker import Broker
from mocketmq.broker.filters.filter import SQL92, TAG
from mocketmq.broker.registry.clients import Subscription
from mocketmq.broker.registry.groups import MAX_RETRIES, USUAL, retry_policy_of
from mocketmq.clock import US_PER_MS, US_PER_S, wall_us
from mocketmq.errors import InvalidArgumentError
from mocketmq.grpc_proxy.call import Call, group_of, topic_of
from mocketmq.grpc_proxy.clients import PRODUCER, GrpcClient, GrpcClients
from mocketmq.grpc_proxy.codes import set_status
from mocketmq.grpc_proxy.lite import set_limits
from mocketmq.grpc_proxy.messages import message_class, set_us, us_of
from mocketmq.grpc_proxy.questions import Command
from mocketmq.grpc_proxy.receiving import LONGEST_POLL_US

MAX_TOPICS: Final = 1_024
"""Maximum number of topics in a client's settings, which stay in memory while the client is connected."""
_BATCH: Final = 32
_SEND_ATTEMPTS: Final = 3
_FIRST_BACKOFF_US, _LAST_BACKOFF_US = 10 * US_PER_MS, US_PER_S

_PROPERTY_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,63}")
_PROPERTIES_ALLOWED: Final = (
    f"32 properties of 4 KiB together, with values of 256 characters and names like {_PROPERTY_NAME.pattern}"
)

_Settings = message_class("Settings")
_HeartbeatAnswer = message_class("HeartbeatResponse")
_TerminationAnswer = message_class("NotifyClientTerminationResponse")


async def heartbeat(call: Call) -> Any:
    """Record the client's heartbeat."""
    if call.request.HasField("group") and call.request.client_type != PRODUCER:
        group_of(call.request.group)
    call.clients.beats(call.client_id)
    return _HeartbeatAnswer()


async def terminate(call: Call) -> Any:
    """Remove the client, and release the messages that it still holds."""
    if call.request.group.name:
        group_of(call.request.group)
    call.clients.leave(call.client_id)
    call.broker.lite_subscriptions.leave(call.client_id)
    await call.broker.renewals.release(call.client_id)
    return _TerminationAnswer()


def answer_settings(
    broker: Broker,
    clients: GrpcClients,
    client: GrpcClient,
    settings: Any,
    *,
    max_body: int,
    max_long_poll_us: int,
) -> Any:
    """Register the client by its settings, and respond with the effective settings. Raises RefusedError."""
    count = len(settings.publishing.topics) + len(settings.subscription.subscriptions)
    if count > MAX_TOPICS:
        raise InvalidArgumentError("settings", f"{count} topics", f"up to {MAX_TOPICS} topics")
    answer = Command()
    answer.settings.CopyFrom(settings)
    out = answer.settings
    client.request_timeout_us = us_of(settings.request_timeout)
    client.properties = _client_properties(settings)
    max_poll_us = min(max_long_poll_us, LONGEST_POLL_US)
    if settings.WhichOneof("pub_sub") == "publishing":
        topics = [topic_of(topic) for topic in settings.publishing.topics]
        clients.produces(client, topics)
        _set_producer(out, max_body)
    else:
        group = group_of(settings.subscription.group)
        clients.consumes(
            client,
            settings.client_type,
            group,
            [_subscription(entry) for entry in settings.subscription.subscriptions],
        )
        _set_consumer(out, broker, group, max_poll_us)
        if client.is_lite:
            known = broker.registry.groups.find_group(group)
            set_limits(out.subscription, (known.config if known else USUAL).lite_quota)
    out.metric.on = False
    return set_status(answer)


def _client_properties(settings: Any) -> dict[str, str]:
    """Return the application's description of itself, within the limits of rocketmq-apis."""
    properties = dict(settings.client_properties)
    if (
        len(properties) > 32
        or any(len(value) > 256 or not _PROPERTY_NAME.fullmatch(name) for name, value in properties.items())
        or _Settings(client_properties=properties).ByteSize() > 4 << 10
    ):
        raise InvalidArgumentError("client_properties", properties, _PROPERTIES_ALLOWED)
    return properties


def _subscription(entry: Any) -> Subscription:
    kind = SQL92 if entry.expression.type == 2 else TAG
    version = wall_us() // US_PER_MS  # as in RocketMQ's proxy, so that later settings replace earlier ones
    return Subscription(topic_of(entry.topic), entry.expression.expression or "*", version, kind)


def _set_producer(out: Any, max_body: int) -> None:
    out.publishing.max_body_size = max_body
    out.publishing.validate_message_type = True
    out.backoff_policy.max_attempts = _SEND_ATTEMPTS
    _set_exponential(out.backoff_policy, _FIRST_BACKOFF_US, _LAST_BACKOFF_US, 2)


def _set_consumer(out: Any, broker: Broker, group_name: str, max_poll_us: int) -> None:
    group = broker.registry.groups.find_group(group_name)
    max_retries = MAX_RETRIES if group is None else group.max_retries
    out.subscription.fifo = group is not None and group.config.consume_message_orderly
    out.subscription.receive_batch_size = _BATCH
    poll = out.subscription.long_polling_timeout
    # Go's push consumer waits for this timeout when it closes, even if its polls end early.
    if not out.subscription.HasField("long_polling_timeout") or us_of(poll) > max_poll_us:
        set_us(poll, max_poll_us)
    out.backoff_policy.Clear()
    out.backoff_policy.max_attempts = max_retries + 1
    policy = retry_policy_of(None if group is None else group.config.group_retry_policy)
    if policy.exponential is not None:
        initial_ms, max_ms, multiplier = msgspec.structs.astuple(policy.exponential)
        _set_exponential(out.backoff_policy, initial_ms * US_PER_MS, max_ms * US_PER_MS, multiplier)
        return
    delays_us = broker.levels.table.delays_us  # the default, as in RocketMQ
    if policy.delays_ms is not None:
        delays_us = tuple(delay_ms * US_PER_MS for delay_ms in policy.delays_ms)
    backoff = out.backoff_policy.customized_backoff
    for delay_us in delays_us:
        set_us(backoff.next.add(), max(delay_us, 0))


def _set_exponential(policy: Any, initial_us: int, max_us: int, multiplier: int) -> None:
    backoff = policy.exponential_backoff
    set_us(backoff.initial, initial_us)
    set_us(backoff.max, max_us)
    backoff.multiplier = multiplier
