"""Answers a pull with the messages from an offset on (docs/protocol/remoting.md §2.3)."""

from typing import Final

from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.pull import Pulled
from mocketmq.broker.consuming.pull_status import PullStatus
from mocketmq.broker.filters.filter import EVERYTHING, SQL92, TAG, Filter
from mocketmq.broker.registry.clients import BROADCASTING
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.hosts import split_address, with_port
from mocketmq.message.names import RETRY_PREFIX
from mocketmq.remoting import logical_queues
from mocketmq.remoting.access_rule import consumes
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.lane import Effect
from mocketmq.remoting.request import LongPoll, Request, RequestFamily
from mocketmq.remoting.requests.membership import check_kind, filter_of
from mocketmq.remoting.requests.queue_headers import ConsumerQueueHeader
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.header import Int32
from mocketmq.remoting.wire.pull_flags import COMMIT_OFFSET, SUBSCRIPTION, SUSPEND
from mocketmq.remoting.wire.record import encode_records


class PullMessageHeader(ConsumerQueueHeader):
    """``suspend_timeout_millis`` is the time to wait for messages; ``sub_version`` is in milliseconds."""

    queue_offset: int
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: int
    suspend_timeout_millis: int
    sub_version: int
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None


_CODES: Final = {
    PullStatus.FOUND: ResponseCode.SUCCESS,
    PullStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    PullStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    PullStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    PullStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    PullStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}


async def pull(call: RemotingCall[PullMessageHeader]) -> Response:
    """Return the messages of a queue from an offset on, as soon as there are any."""
    return await pull_until(call, None)


async def pull_until(call: RemotingCall[PullMessageHeader], until_us: int | None) -> Response:
    """Like :func:`pull`, but without messages stored after the instant, if it is given."""
    header, reader = call.header, call.broker.pull
    group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
    consuming, _ = await reader.admit(group, topic, queue_id)
    tag_filter = _filter_of_pull(call.broker, header)
    if header.sys_flag & SUBSCRIPTION:
        consuming.filtered_by_pull.add(topic)
    if header.sys_flag & COMMIT_OFFSET:
        await call.broker.committed_offsets.report(
            group, topic, queue_id, header.commit_offset, is_durable=False
        )
    wait_us = header.suspend_timeout_millis * US_PER_MS if header.sys_flag & SUSPEND else 0
    pulled = await reader.pull(
        group,
        topic,
        queue_id,
        header.queue_offset,
        header.max_msg_nums,
        wait_s=min(wait_us, call.settings.max_long_poll_us) / US_PER_S,
        tag_filter=tag_filter,
        max_bytes=header.max_msg_bytes,
        gets_resets=call.broker.registry.clients.gets_resets(group, call.channel),
        load=call.channel.load(),
        until_us=until_us,
    )
    host, version = _store_host(call, queue_id), call.command.version
    queue_id = call.channel.share.queue_id(topic, queue_id)
    records = encode_records(pulled.messages, topic, queue_id, host, version)
    ext = {
        "suggestWhichBrokerId": str(consuming.registered.config.broker_id) if call.settings.slaves else "0",
        "nextBeginOffset": str(pulled.next_offset),
        "minOffset": str(pulled.min_offset),
        "maxOffset": str(pulled.max_offset),
    }
    return Response(ext, records, _code(pulled, header.queue_offset), pulled.status.value)


def _store_host(call: RemotingCall[PullMessageHeader], queue_id: int) -> str:
    """The broker's address in records. The queue of a static topic may belong to another broker."""
    channel = call.channel
    if channel.share.has_queue(call.header.topic, queue_id):
        return channel.store_host
    other = call.broker.registry.brokers.broker_named(channel.share.name_of(queue_id))
    host, _ = split_address(channel.store_host, 0)
    host, port = split_address(other.advertise or host, other.master_port)
    return with_port(host, other.master_port if other.condition.is_promoted else port)


def _code(pulled: Pulled, offset: int) -> ResponseCode:
    if pulled.status is PullStatus.NO_MESSAGE_IN_QUEUE:
        return ResponseCode.PULL_OFFSET_MOVED if offset else ResponseCode.PULL_NOT_FOUND
    return _CODES[pulled.status]


def _filter_of_pull(broker: Broker, header: PullMessageHeader) -> Filter:
    """The filter in a pull or, by default, in the last heartbeat of its group.

    Nothing is filtered before the group's first heartbeat, so that clients need not wait after a restart of
    the broker. The same holds while the last heartbeat is older than the pull's subscription, because clients
    of 5.3 sometimes omit a heartbeat and would wait half a minute for the next. Clients also filter by tag
    themselves, but not by SQL. As in RocketMQ, pulls with SQL are therefore refused in both cases, and
    clients retry.
    """
    if header.sys_flag & SUBSCRIPTION:
        prefix = "parse the consumer's subscription failed: "
        return filter_of(header.subscription, header.expression_type or TAG, prefix)
    if header.topic.startswith(RETRY_PREFIX):
        return EVERYTHING
    group = broker.registry.clients.find_connected_group(header.consumer_group)
    if group is None:
        if header.expression_type == SQL92:
            raise RemotingError(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's group info not exist, group: {header.consumer_group}",
            )
        return EVERYTHING
    if group.model == BROADCASTING:
        broker.registry.groups.get(header.consumer_group).check_may_broadcast()
    subscription = group.subscriptions.get(header.topic)
    if subscription is None:
        raise RemotingError(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"the consumer's subscription not exist, group: {header.consumer_group}, topic: {header.topic}",
        )
    check_kind(subscription.kind)
    if subscription.version >= header.sub_version:
        if subscription.problem is not None:
            raise RemotingError(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                "The broker's consumer filter data is not exist!Your expression may be wrong!"
                f" {subscription.problem}",
            )
        return subscription.tag_filter
    if SQL92 in (subscription.kind, header.expression_type):
        raise RemotingError(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
    return EVERYTHING


PULLING: Final = RequestFamily("Pulling")
for _request_code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
    Request(
        PULLING,
        _request_code,
        access=consumes("topic", "consumerGroup", is_topic_first=True),
        long_poll=LongPoll.REFUSED,
        effect=Effect.AT_ONCE,
        logical=logical_queues.pull,
    )(pull)
