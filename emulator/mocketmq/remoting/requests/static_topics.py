"""Creates static topics, and moves their logical queues to other brokers (docs/brokers.md).

``mqadmin`` computes the mappings, and sends each broker its own, one broker after the other.
"""

from typing import Final

from mocketmq.access.needs import Action
from mocketmq.broker.registry.static_topic import QueueMapping
from mocketmq.broker.registry.topic_config import QueuesAtBroker, TopicConfig
from mocketmq.errors import InvalidArgumentError, NoPermissionError
from mocketmq.remoting.access_rule import administers
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.mapping_json import read_mapping
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.requests.topics import FILTER_TYPES
from mocketmq.remoting.wire.body import object_of, text_in
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.header import Int32, RequestHeader


class StaticTopicHeader(RequestHeader):
    """With ``force``, the mapping may contradict the mapping that it replaces."""

    topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 = 0
    force: bool = False


STATIC_TOPICS: Final = RequestFamily("Static topics")


@Request(
    STATIC_TOPICS,
    RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
    access=administers(Action.CREATE, topic="topic"),
)
async def create(call: RemotingCall[StaticTopicHeader]) -> Response:
    """Create or change a static topic on this broker. As in RocketMQ, the topic is never ordered."""
    header, share = call.header, call.channel.share
    if call.channel.name_server is not None:
        raise RemotingError(
            ResponseCode.SYSTEM_ERROR, "a mapping belongs to one broker; send this request to that broker"
        )
    body = object_of(call.command.body)
    mapping = read_mapping(body)
    if (topic := text_in(body, "topic")) != header.topic:
        raise InvalidArgumentError("topic", topic, f"{header.topic}, as in the request's header")
    if mapping.broker != share.name:
        raise InvalidArgumentError("bname", mapping.broker, f"{share.name}, which this request has reached")
    _check_brokers(call, mapping)
    if header.topic_filter_type not in FILTER_TYPES:
        raise InvalidArgumentError("topicFilterType", header.topic_filter_type, " or ".join(FILTER_TYPES))
    topics = call.broker.registry.topics
    known = topics.find_topic(header.topic)
    config = TopicConfig(
        header.topic_filter_type,
        header.topic_sys_flag,
        attributes=known.config.attributes if known else {},
    )
    queues = QueuesAtBroker(header.read_queue_nums, header.write_queue_nums, header.perm)
    try:
        await topics.put_static(header.topic, share.position, queues, config, mapping, is_forced=header.force)
    except NoPermissionError as error:
        raise RemotingError(ResponseCode.INVALID_PARAMETER, str(error)) from None
    return Response()


def _check_brokers(call: RemotingCall[StaticTopicHeader], mapping: QueueMapping) -> None:
    """Raise BrokerNotFoundError if a mapping item names an unknown broker."""
    for broker in {item.broker for items in mapping.hosted.values() for item in items}:
        call.broker.registry.brokers.broker_named(broker)
