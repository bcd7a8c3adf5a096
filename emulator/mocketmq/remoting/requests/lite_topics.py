"""Requests of admin tools such as mqadmin about lite topics (LiteManagerProcessor, 5.5.0).

Consumers of lite topics use gRPC. mocketmq therefore does not serve the requests between 5.5.0's proxy and
broker for popping (200070), for subscribing (200071) and, sent by the broker, for ending a subscription
(200073). 5.5.0 also declares ACK_LITE_MESSAGE (200072), but neither sends nor serves it.
"""

import heapq
from collections.abc import Iterable
from typing import Any, Final

from mocketmq.broker.lite.subscriptions import has_more
from mocketmq.broker.registry.groups import Group
from mocketmq.broker.registry.lite_topics import MAX_LITE_TOPICS
from mocketmq.broker.registry.topic import Topic
from mocketmq.clock import US_PER_MS, steady_us, wall_us
from mocketmq.errors import GroupNotFoundError, TopicNotFoundError
from mocketmq.remoting.access_rule import ADMIN, KEY
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.fastjson import dumps
from mocketmq.remoting.wire.header import Int32, NoHeader, RequestHeader, TopicHeader
from mocketmq.store.messages import store_times
from mocketmq.store.queue import LiteQueue

MAX_LISTED: Final = 10_000
"""Maximum number of lite topics in a response, as in RocketMQ."""


class LiteTopicHeader(RequestHeader):
    """Names a lite topic and its parent topic."""

    parent_topic: str
    lite_topic: str


class LiteClientHeader(RequestHeader):
    """Names a client of a group. The response has up to ``max_count`` lite topics."""

    parent_topic: str
    group: str
    client_id: str
    max_count: Int32 = 1_000


class LiteGroupHeader(RequestHeader):
    """Names a group and a lite topic.

    Without a lite topic, the response lists the ``top_k`` lite topics with the most lag.
    """

    group: str
    lite_topic: str = ""
    top_k: Int32 = 0


class LiteDispatchHeader(RequestHeader):
    """Names a group, and a client of the group; the default is all clients."""

    group: str
    client_id: str = ""


LITE_TOPICS: Final = RequestFamily("Lite topics")


@Request(LITE_TOPICS, RequestCode.GET_BROKER_LITE_INFO, access=KEY)
async def broker_info(call: RemotingCall[NoHeader]) -> Response:
    """Return the numbers of lite topics and lite subscriptions, the parent topics, and their groups."""
    broker, topics = call.broker, call.broker.registry.topics
    groups: dict[str, list[str]] = {}
    for group in broker.registry.groups:
        if group.config.lite_parent is not None:
            groups.setdefault(group.config.lite_parent, []).append(group.name)
    body = {
        "storeType": "default",
        "maxLmqNum": MAX_LITE_TOPICS,
        "currentLmqNum": topics.lites.count,
        "liteSubscriptionCount": broker.lite_subscriptions.count,
        "orderInfoCount": 0,
        "cqTableSize": topics.lites.count,
        "offsetTableSize": sum(len(group.queues) for group in broker.consuming_groups),
        "eventMapSize": 0,
        "topicMeta": {topic.name: topic.config.lite_expiration for topic in topics if topic.config.is_lite},
        "groupMeta": groups,
    }
    return Response(body=dumps(body))


@Request(LITE_TOPICS, RequestCode.GET_PARENT_TOPIC_INFO, access=KEY)
async def parent_info(call: RemotingCall[TopicHeader]) -> Response:
    """Return the expiration, the groups and the number of lite topics of a parent topic."""
    topic, lites = _parent(call, call.header.topic), call.broker.registry.topics.lites
    groups = call.broker.registry.groups
    body = {
        "topic": topic.name,
        "ttl": topic.config.lite_expiration,
        "lmqNum": lites.count,
        "liteTopicCount": len(lites.of(topic.name)),
        "groups": [group.name for group in groups if group.config.lite_parent == topic.name],
    }
    return Response(body=dumps(body))


@Request(LITE_TOPICS, RequestCode.GET_LITE_TOPIC_INFO, access=KEY)
async def topic_info(call: RemotingCall[LiteTopicHeader]) -> Response:
    """Return the offsets and subscribers of a lite topic."""
    parent, name = call.header.parent_topic, call.header.lite_topic
    topic = _parent(call, parent)
    queue = call.broker.registry.topics.lites.find(topic.name, name)
    subscribers: dict[tuple[str, str], None] = {}
    for each in call.broker.lite_subscriptions.of(topic.name, name):
        subscribers["*" if each.is_wildcard else each.client_id, each.group.name] = None
    body = {
        "parentTopic": parent,
        "liteTopic": name,
        "subscriber": [{"clientId": client_id, "group": group} for client_id, group in subscribers],
        "topicOffset": {
            "minOffset": queue.min_offset if queue else 0,
            "maxOffset": queue.next_offset if queue else 0,
            "lastUpdateTimestamp": queue.last_us // US_PER_MS if queue else 0,
        },
        "shardingToBroker": True,
    }
    return Response(body=dumps(body))


@Request(LITE_TOPICS, RequestCode.GET_LITE_CLIENT_INFO, access=KEY)
async def client_info(call: RemotingCall[LiteClientHeader]) -> Response:
    """Return a client's subscription."""
    parent, group_name, client_id = call.header.parent_topic, call.header.group, call.header.client_id
    topic, group = _parent(call, parent), _group(call, group_name)
    if group.config.lite_parent != topic.name:
        raise RemotingError(
            ResponseCode.INVALID_PARAMETER, f"Subscription [{group_name}]-[{parent}] not match."
        )
    found = call.broker.lite_subscriptions.find(client_id)
    names = list(found.names) if found else []
    listed = max(0, min(call.header.max_count, MAX_LISTED))
    body = {
        "parentTopic": parent,
        "group": group_name,
        "clientId": client_id,
        "lastAccessTime": (wall_us() - steady_us() + found.repeated_us) // US_PER_MS if found else -1,
        "lastConsumeTime": 0,
        "liteTopicCount": len(names) if found else -1,
        "liteTopicSet": [_lmq_name(parent, name) for name in names[:listed]],
    }
    return Response(body=dumps(body))


@Request(LITE_TOPICS, RequestCode.GET_LITE_GROUP_INFO, access=KEY)
async def group_info(call: RemotingCall[LiteGroupHeader]) -> Response:
    """Return a group's lag in one lite topic, or its lag in all and the lite topics with the most lag."""
    name = call.header.lite_topic
    group = _lite_group(call, call.header.group)
    parent, lites = group.config.lite_parent or "", call.broker.registry.topics.lites
    state = call.broker.consuming_groups.of(group)
    body: dict[str, Any] = {"group": group.name, "parentTopic": parent, "liteTopic": name}
    queues: Iterable[LiteQueue] = filter(None, [lites.find(parent, name)]) if name else lites.of(parent)
    behind = [queue for queue in queues if name or has_more(state, queue)]
    starts = {queue: state.in_queue(queue).start_offset for queue in behind}
    times = await store_times(
        call.broker.store.database, [(queue.key, start) for queue, start in starts.items()]
    )
    lags: list[dict[str, Any]] = [
        {
            "liteTopic": queue.name,
            "lagCount": queue.next_offset - start,
            "earliestUnconsumedTimestamp": times.get((queue.key, start), -US_PER_MS) // US_PER_MS,
        }
        for queue, start in starts.items()
    ]
    oldest = [one["earliestUnconsumedTimestamp"] for one in lags if one["earliestUnconsumedTimestamp"] != -1]
    body["totalLagCount"] = sum(one["lagCount"] for one in lags) if lags or not name else -1
    body["earliestUnconsumedTimestamp"] = min(oldest, default=-1)
    if name and behind:
        [queue] = behind
        body["liteTopicOffsetWrapper"] = {
            "brokerOffset": queue.next_offset,
            "consumerOffset": starts[queue],
            "lastTimestamp": 0,
            "pullOffset": 0,
        }
    elif not name:
        most = max(0, min(call.header.top_k, MAX_LISTED))
        body["lagCountTopK"] = heapq.nlargest(most, lags, key=lambda one: one["lagCount"])
        body["lagTimestampTopK"] = heapq.nsmallest(
            most, lags, key=lambda one: one["earliestUnconsumedTimestamp"]
        )
    return Response(body=dumps(body))


@Request(LITE_TOPICS, RequestCode.TRIGGER_LITE_DISPATCH, access=ADMIN)
async def dispatch(call: RemotingCall[LiteDispatchHeader]) -> Response:
    """Wake the group's waiting clients to look for messages. New messages wake them as well."""
    _lite_group(call, call.header.group)
    call.broker.lite_subscriptions.wake(call.header.group, call.header.client_id)
    return Response()


def _parent(call: RemotingCall[Any], name: str) -> Topic:
    topic = call.broker.registry.topics.find_topic(name)
    if topic is None:
        raise TopicNotFoundError(f"Topic [{name}] not exist.")
    if not topic.config.is_lite:
        raise RemotingError(ResponseCode.INVALID_PARAMETER, f"Topic [{name}] type not match.")
    return topic


def _group(call: RemotingCall[Any], name: str) -> Group:
    group = call.broker.registry.groups.find_group(name)
    if group is None:
        raise GroupNotFoundError(f"Group [{name}] not exist.")
    return group


def _lite_group(call: RemotingCall[Any], name: str) -> Group:
    group = _group(call, name)
    if group.config.lite_parent is None:
        raise RemotingError(ResponseCode.INVALID_PARAMETER, f"Group [{name}] is not a LITE group.")
    return group


def _lmq_name(parent: str, name: str) -> str:
    """The name of a lite topic's queue in RocketMQ's store (LiteUtil.java)."""
    return f"%LMQ%${parent}${name}"
