"""Telemetry: a client says what it is, and is told what to go by (ClientActivity.java, 5.3.3).

Unary requests beside it: Heartbeat and NotifyClientTermination. As the SDKs need after a restart of the
broker, a client is served without having said anything, which upstream's proxy refuses.
"""

from typing import Any, Final

from mocketmq.broker.broker import Broker
from mocketmq.broker.filters.filter import SQL92, TAG
from mocketmq.broker.registry.clients import Subscription
from mocketmq.broker.registry.groups import MAX_RETRIES
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.grpc_proxy.call import Call
from mocketmq.grpc_proxy.clients import LITE_CONSUMERS, PRODUCER, GrpcClient, GrpcClients
from mocketmq.grpc_proxy.codes import set_status
from mocketmq.grpc_proxy.messages import message_class
from mocketmq.grpc_proxy.names import group_of, topic_of
from mocketmq.grpc_proxy.newer import let_subscribe
from mocketmq.grpc_proxy.questions import Command
from mocketmq.grpc_proxy.receiving import LONGEST_POLL_US
from mocketmq.grpc_proxy.times import set_us, us_of

_BATCH: Final = 32
_SEND_ATTEMPTS: Final = 3
_FIRST_BACKOFF_US, _LAST_BACKOFF_US = 10 * US_PER_MS, US_PER_S

_HeartbeatAnswer = message_class("HeartbeatResponse")
_TerminationAnswer = message_class("NotifyClientTerminationResponse")


async def heartbeat(call: Call) -> Any:
    """Note that the client lives."""
    if call.request.HasField("group") and call.request.client_type != PRODUCER:
        group_of(call.request.group)
    call.clients.beats(call.client_id)
    return _HeartbeatAnswer()


async def terminate(call: Call) -> Any:
    """Let others have the messages that the client still holds."""
    if call.request.group.name:
        group_of(call.request.group)
    await call.broker.consuming.renewals.release(call.client_id)
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
    """Register the client by its settings, and answer with those that it is to go by. Raises GrpcError."""
    answer = Command()
    answer.settings.CopyFrom(settings)
    out = answer.settings
    client.request_timeout_us = us_of(settings.request_timeout)
    max_poll_us = min(max_long_poll_us, LONGEST_POLL_US)
    if settings.WhichOneof("pub_sub") == "publishing":
        topics = [topic_of(topic) for topic in settings.publishing.topics]
        clients.produces(client, topics)
        _set_producer(out, max_body)
    elif settings.client_type in LITE_CONSUMERS:
        _set_consumer(out, broker, group_of(settings.subscription.group), max_poll_us)
        clients.wants_lite_topics(client)
        let_subscribe(out.subscription)
    else:
        group = group_of(settings.subscription.group)
        clients.consumes(
            client,
            settings.client_type,
            group,
            [_subscription(entry) for entry in settings.subscription.subscriptions],
        )
        _set_consumer(out, broker, group, max_poll_us)
    out.metric.on = False
    return set_status(answer)


def _subscription(entry: Any) -> Subscription:
    kind = SQL92 if entry.expression.type == 2 else TAG
    return Subscription(topic_of(entry.topic), entry.expression.expression or "*", kind=kind)


def _set_producer(out: Any, max_body: int) -> None:
    out.publishing.max_body_size = max_body
    out.publishing.validate_message_type = True
    out.backoff_policy.max_attempts = _SEND_ATTEMPTS
    backoff = out.backoff_policy.exponential_backoff
    set_us(backoff.initial, _FIRST_BACKOFF_US)
    set_us(backoff.max, _LAST_BACKOFF_US)
    backoff.multiplier = 2


def _set_consumer(out: Any, broker: Broker, group_name: str, max_poll_us: int) -> None:
    group = broker.registry.groups.find(group_name)
    max_retries = MAX_RETRIES if group is None else group.max_retries
    out.subscription.fifo = group is not None and group.config.consume_message_orderly
    out.subscription.receive_batch_size = _BATCH
    poll = out.subscription.long_polling_timeout
    # When Go's push consumer closes, it waits for this time, however early its polls end.
    if not out.subscription.HasField("long_polling_timeout") or us_of(poll) > max_poll_us:
        set_us(poll, max_poll_us)
    out.backoff_policy.max_attempts = max_retries + 1
    backoff = out.backoff_policy.customized_backoff
    for delay_us in broker.levels.table.delays_us:  # as upstream, the delay levels
        set_us(backoff.next.add(), max(delay_us, 0))
