"""Consumer lag, topic statistics and queue contents (docs/protocol/remoting.md §2.10)."""

from collections.abc import Iterable
from typing import Any, Final

from mocketmq.broker.inspection.group_progress import TopicProgress
from mocketmq.broker.registry.statistics import MINUTE_US
from mocketmq.clock import US_PER_MS
from mocketmq.message.broker_share import BrokerShare
from mocketmq.message.message import StoredMessage
from mocketmq.remoting.access_rule import reads
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.channel import queue_name
from mocketmq.remoting.lane import Effect
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.requests.connections import subscription_data
from mocketmq.remoting.requests.queue_headers import QueueHeader
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.fastjson import dumps, object_keys
from mocketmq.remoting.wire.header import GroupHeader, Int32, RequestHeader, TopicHeader
from mocketmq.remoting.wire.record import encode_record
from mocketmq.rocketmq_versions import V5_0_0
from mocketmq.store.queue import Queue

_LONG_MAX: Final = (1 << 63) - 1
MAX_ENTRIES: Final = 64
"""Maximum number of entries in a response, because the message of each entry is read to find its size."""
_READ_BYTES: Final = 256 << 10
"""Maximum size of the messages that are read at once to make entries, in bytes."""


class ConsumeStatsHeader(RequestHeader):
    """Without ``topic``, the request is about all topics that the group has consumed."""

    consumer_group: str
    topic: str = ""


class TopicGroupHeader(RequestHeader):
    """Header of requests that name a topic and a group."""

    topic: str
    group: str


class CorrectionOffsetHeader(RequestHeader):
    """``filter_groups`` is a comma-separated list of groups to ignore."""

    topic: str
    compare_group: str
    filter_groups: str = ""


class BrokerConsumeStatsHeader(RequestHeader):
    """``is_order`` selects only topics that are configured as ordered."""

    is_order: bool


class QueryConsumeQueueHeader(QueueHeader):
    """Requests up to ``at_most`` entries, beginning at offset ``start``."""

    start: int
    at_most: Int32
    consumer_group: str | None = None


PROGRESS: Final = RequestFamily("Progress")


@Request(PROGRESS, RequestCode.GET_TOPIC_STATS_INFO, access=reads(topic="topic"), is_for_slaves=True)
async def topic_stats(call: RemotingCall[TopicHeader]) -> Response:
    """Return the first and next offset, and the time of the newest message, of each queue of a topic."""
    statistics, share = call.broker.registry.statistics, call.channel.share
    _check_is_here(call, call.header.topic)
    queues = await call.broker.group_progress.of_topic(call.header.topic, is_of_5=_is_of_5(call))
    table = object_keys(
        (
            _queue(share, queue),
            {
                "lastUpdateTimestamp": newest_ms,
                "maxOffset": queue.next_offset,
                "minOffset": queue.min_offset,
            },
        )
        for queue, newest_ms in queues
        if _is_of(share, queue)
    )
    meter = statistics.topics.get(call.header.topic)
    window = statistics.window(meter, MINUTE_US) if meter else None
    per_second = window.per_second(window.added.messages) if window else 0.0
    return Response(body=dumps({"offsetTable": table, "topicPutTps": per_second}))


@Request(
    PROGRESS,
    RequestCode.GET_CONSUME_STATS,
    access=reads(group="consumerGroup", topic="topic"),
    effect=Effect.AT_ONCE,
    is_for_slaves=True,
)
async def consume_stats(call: RemotingCall[ConsumeStatsHeader]) -> Response:
    """Return a group's committed offsets and lag."""
    group, topic = call.header.consumer_group, call.header.topic.strip() or None
    found = await call.broker.group_progress.of_group(group, topic, is_of_5=_is_of_5(call))
    return Response(body=dumps(_consume_stats(found, call.channel.share)))


@Request(
    PROGRESS, RequestCode.GET_BROKER_CONSUME_STATS, access=reads(), effect=Effect.AT_ONCE, is_for_slaves=True
)
async def broker_consume_stats(call: RemotingCall[BrokerConsumeStatsHeader]) -> Response:
    """Return the committed offsets and lag of all groups."""
    groups, share = [], call.channel.share
    diff = inflight_diff = 0
    for group in call.broker.registry.groups:
        found = await call.broker.group_progress.of_group(group.name, is_of_5=_is_of_5(call))
        if call.header.is_order:
            found = [each for each in found if each.topic.config.order]
        groups.append({group.name: [_consume_stats([each], share) for each in found]})
        for each in found:
            queues = [one for one in each.queues if _is_of(share, one.queue)]
            diff += sum(queue.offset_diff for queue in queues)
            inflight_diff += sum(queue.inflight_diff for queue in queues)
    body = {
        "brokerAddr": call.channel.advertised,
        "consumeStatsList": groups,
        "totalDiff": diff,
        "totalInflightDiff": inflight_diff,
    }
    return Response(body=dumps(body))


@Request(PROGRESS, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, access=reads(topic="topic"), is_for_slaves=True)
async def groups_of_topic(call: RemotingCall[TopicHeader]) -> Response:
    """List the groups that consume a topic."""
    return Response(body=dumps({"groupList": call.broker.group_progress.groups_of(call.header.topic)}))


@Request(PROGRESS, RequestCode.QUERY_TOPICS_BY_CONSUMER, access=reads(group="group"), is_for_slaves=True)
async def topics_of_group(call: RemotingCall[GroupHeader]) -> Response:
    """List the topics that a group has consumed."""
    topics = call.broker.group_progress.topics_of(call.header.group)
    return Response(body=dumps({"brokerAddr": call.channel.advertised, "topicList": topics}))


@Request(
    PROGRESS,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
    access=reads(group="group", topic="topic"),
    is_for_slaves=True,
)
async def subscription_of_group(call: RemotingCall[TopicGroupHeader]) -> Response:
    """Return a group's subscription to a topic, according to its clients' heartbeats."""
    topic, name = call.header.topic, call.header.group
    body: dict[str, Any] = {"group": name, "topic": topic}
    if (wanted := _subscription(call, name, topic)) is not None:
        body["subscriptionData"] = wanted
    return Response(body=dumps(body))


@Request(
    PROGRESS,
    RequestCode.QUERY_CONSUME_TIME_SPAN,
    access=reads(topic="topic", group="group"),
    is_for_slaves=True,
)
async def time_spans(call: RemotingCall[TopicGroupHeader]) -> Response:
    """Return the times of the oldest, the newest and the last consumed message of each queue."""
    share = call.channel.share
    _check_is_here(call, call.header.topic)
    spans = [
        {
            "consumeTimeStamp": span.consumed_ms,
            "delayTime": span.delay_ms,
            "maxTimeStamp": span.max_ms,
            "messageQueue": _queue(share, span.queue),
            "minTimeStamp": span.min_ms,
        }
        for span in await call.broker.group_progress.time_spans(call.header.group, call.header.topic)
        if _is_of(share, span.queue)
    ]
    return Response(body=dumps({"consumeTimeSpanSet": spans}))


@Request(
    PROGRESS,
    RequestCode.QUERY_CORRECTION_OFFSET,
    access=reads(groups="filterGroups", group="compareGroup", topic="topic"),
)
async def corrections(call: RemotingCall[CorrectionOffsetHeader]) -> Response:
    """Return the lowest committed offset in each queue, of all groups but ``filter_groups``.

    As in RocketMQ, a queue in which ``compare_group`` is behind this offset gets the largest long instead.
    """
    header, topic = call.header, call.header.topic
    offsets = call.broker.group_progress.corrections(
        topic, header.compare_group, header.filter_groups.split(",")
    )
    share = call.channel.share
    table = {
        str(share.queue_id(topic, number)): _LONG_MAX if offset is None else offset
        for number, offset in offsets.items()
        if share.has_queue(topic, number)
    }
    return Response(body=dumps({"correctionOffsets": table}))


@Request(
    PROGRESS,
    RequestCode.QUERY_CONSUME_QUEUE,
    access=reads(topic="topic", group="consumerGroup"),
    names={"start": "index", "at_most": "count"},
    is_for_slaves=True,
)
async def consume_queue(call: RemotingCall[QueryConsumeQueueHeader]) -> Response:
    """Return the entries of a queue, beginning at an offset."""
    header = call.header
    topic, queue_id, start, group = header.topic, header.queue_id, header.start, header.consumer_group
    queue = call.broker.registry.topics.find_queue(topic, queue_id)
    name = f"{call.channel.share.queue_id(topic, queue_id)}@{topic}"
    if queue is None:
        raise RemotingError(ResponseCode.SYSTEM_ERROR, f"{name} is not exist!")
    body: dict[str, Any] = {"maxQueueIndex": queue.next_offset, "minQueueIndex": queue.min_offset}
    if group is not None:
        wanted = _subscription(call, group, topic)
        if wanted is None:
            body["filterData"] = f"{group}@{topic} is not online!"
        else:
            body["subscriptionData"] = wanted
    if not queue.min_offset <= start < queue.next_offset:
        return Response(body=dumps(body), remark=f"Index {start} of {name} is not exist!")
    left, entries = min(max(header.at_most, 1), MAX_ENTRIES), list[dict[str, Any]]()
    while left and start < queue.next_offset:
        pulled = await call.broker.pull.browse(topic, queue_id, start, left, max_bytes=_READ_BYTES)
        if not pulled.messages:
            break  # retention has removed the messages
        entries += [_entry(call, queue, message) for message in pulled.messages]
        left, start = left - len(pulled.messages), pulled.next_offset
    body["queueData"] = entries
    return Response(body=dumps(body))


def _entry(
    call: RemotingCall[QueryConsumeQueueHeader], queue: Queue, message: StoredMessage
) -> dict[str, Any]:
    """An entry as JSON. As in RocketMQ, an entry in a delay level's queue has its due time as tags code."""
    queue_id = call.channel.share.queue_id(queue.topic, queue.queue_id)
    record = encode_record(message, queue.topic, queue_id, call.channel.store_host)
    return {
        "eval": False,
        "physicOffset": message.log_offset,
        "physicSize": len(record),
        "tagsCode": message.tag_hash if message.due_us is None else message.due_us // US_PER_MS,
    }


def _subscription(call: RemotingCall[Any], group: str, topic: str) -> dict[str, Any] | None:
    live = call.broker.registry.clients.find_connected_group(group)
    wanted = live.subscriptions.get(topic) if live else None
    return subscription_data(wanted) if wanted else None


def _consume_stats(found: Iterable[TopicProgress], share: BrokerShare) -> dict[str, Any]:
    found = list(found)
    table = object_keys(
        (
            _queue(share, one.queue),
            {
                "brokerOffset": one.queue.next_offset,
                "consumerOffset": one.committed_offset,
                "lastTimestamp": one.last_ms,
                "pullOffset": one.given_offset,
            },
        )
        for each in found
        for one in each.queues
        if _is_of(share, one.queue)
    )
    return {"consumeTps": sum(each.given_per_second for each in found), "offsetTable": table}


def _is_of_5(call: RemotingCall[Any]) -> bool:
    return call.settings.server_version >= V5_0_0


def _check_is_here(call: RemotingCall[Any], name: str) -> None:
    """Raise TopicNotFoundError for a topic that this broker does not have."""
    topics = call.broker.registry.topics
    topics.check_is_at(topics.get(name), call.channel.share.position)


def _is_of(share: BrokerShare, queue: Queue) -> bool:
    return share.has_queue(queue.topic, queue.queue_id)


def _queue(share: BrokerShare, queue: Queue) -> dict[str, Any]:
    return queue_name(share, queue.topic, queue.queue_id)
