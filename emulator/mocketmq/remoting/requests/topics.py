"""Lists, creates, changes and deletes topics (docs/protocol/remoting.md §2.9)."""

from collections.abc import Mapping
from typing import Any, Final

from mocketmq.access.needs import Action
from mocketmq.broker.registry.attributes import TOPIC_ATTRIBUTES, changed_attributes, parse_changes
from mocketmq.broker.registry.name_server import DataVersion
from mocketmq.broker.registry.topic import PERM_READ, PERM_WRITE, Topic
from mocketmq.broker.registry.topic_config import ABSENT, MESSAGE_TYPE, QueuesAtBroker, TopicConfig
from mocketmq.broker.registry.topics import is_at_all_brokers
from mocketmq.errors import InvalidArgumentError, NoPermissionError, TopicNotFoundError, shorten
from mocketmq.message.names import SYSTEM_TOPICS, check_topic_name
from mocketmq.remoting.access_rule import ADMIN, KEY, administers, reads
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.mapping_json import mapping_detail
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.requests import without_effect
from mocketmq.remoting.wire.body import object_of, objects_in, text_in
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.fastjson import dumps
from mocketmq.remoting.wire.header import Int32, NoHeader, RequestHeader, TopicHeader
from mocketmq.rocketmq_versions import V5_0_0


class CreateTopicHeader(RequestHeader):
    """``attributes`` lists changes in the form ``+name=value,-name``."""

    topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: str = ""


class TopicConfigHeader(RequestHeader):
    """``lo`` also requests the logical queues of a static topic."""

    topic: str
    lo: bool = False


FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")
_QUEUES: Final = 16
"""Default number of queues of a topic in a list of topics to create (TopicConfig.java)."""
_MIXED_IS_OFF: Final = (
    "MIXED message type is not supported. message.type is 'MIXED'; allowed: UNSPECIFIED, NORMAL, FIFO,"
    " DELAY, TRANSACTION, PRIORITY or LITE, as enableMixedMessageType is false. Set it to true, or leave the"
    " attribute out: a topic without it takes all types"
)


TOPICS: Final = RequestFamily("Topics")


@Request(TOPICS, RequestCode.UPDATE_AND_CREATE_TOPIC, access=administers(Action.CREATE, topic="topic"))
async def create(call: RemotingCall[CreateTopicHeader]) -> Response:
    """Create or change a topic."""
    return await _put(call, [(call.header, parse_changes(call.header.attributes))])


@Request(TOPICS, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, access=ADMIN)
async def create_all(call: RemotingCall[NoHeader]) -> Response:
    """Create or change topics. If one of them is refused, none is changed."""
    body = object_of(call.command.body)
    return await _put(call, [_topic_in(one) for one in objects_in(body, "topicConfigList")])


@Request(TOPICS, RequestCode.DELETE_TOPIC_IN_BROKER, access=administers(Action.DELETE, topic="topic"))
async def delete(call: RemotingCall[TopicHeader]) -> Response:
    """Delete a topic with its messages. As in RocketMQ, it is no error if the topic does not exist.

    RocketMQ 5 checks only that the name is not blank. RocketMQ 4 also checks its characters and length.
    """
    if call.settings.server_version < V5_0_0 or not call.header.topic.strip():
        check_topic_name(call.header.topic)
    try:
        cancelled = await call.broker.reset.delete_topic(call.header.topic)
    except TopicNotFoundError:
        return Response(remark=f"topic {shorten(call.header.topic)} did not exist")
    except NoPermissionError as error:
        raise RemotingError(ResponseCode.INVALID_PARAMETER, str(error)) from None
    return Response(remark=f"{cancelled} delayed messages were cancelled" if cancelled else None)


@Request(TOPICS, RequestCode.GET_ALL_TOPIC_CONFIG, access=KEY, is_for_slaves=True)
async def all_topics(call: RemotingCall[NoHeader]) -> Response:
    """List the settings of all topics."""
    topics = call.broker.registry.topics
    position = call.channel.share.position
    table = {
        topic.name: _config(topic, at) for topic in topics if (at := topic.at_broker(position)) != ABSENT
    }
    return Response(body=dumps({"dataVersion": data_version(topics.version), "topicConfigTable": table}))


@Request(TOPICS, RequestCode.GET_TOPIC_CONFIG, access=reads(topic="topic"), is_for_slaves=True)
async def one_topic(call: RemotingCall[TopicConfigHeader]) -> Response:
    """Return the settings of a topic, and the mapping of a static topic if the client asks for it."""
    topic, position = call.broker.registry.topics.find_topic(call.header.topic), call.channel.share.position
    if topic is None or (at := topic.at_broker(position)) == ABSENT:
        raise RemotingError(
            ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {call.header.topic}"
        )
    config = _config(topic, at)
    if call.header.lo and (mapping := topic.mapping_at(position)) is not None:
        config["mappingDetail"] = mapping_detail(topic.name, mapping)
    return Response(body=dumps(config))


@Request(TOPICS, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, access=KEY, is_for_slaves=True)
async def system_topics(call: RemotingCall[NoHeader]) -> Response:
    """List the names of topics that only the broker creates, even if they do not exist."""
    made = {topic.name for topic in call.broker.registry.topics if topic.is_system}
    return Response(body=dumps({"topicList": sorted(SYSTEM_TOPICS | made)}))


def data_version(version: DataVersion) -> dict[str, int]:
    """A data version as JSON. Tools compare its counter."""
    return {"counter": version.counter, "stateVersion": 0, "timestamp": version.timestamp_ms}


async def _put(
    call: RemotingCall[Any], wanted: list[tuple[CreateTopicHeader, Mapping[str, str]]]
) -> Response:
    """Check all topics, then create or change them on the broker that the request reached.

    A request to a name server, which RocketMQ would refuse, changes the topics on all brokers. The remark
    names attributes without effect in mocketmq.
    """
    topics, position = call.broker.registry.topics, call.channel.share.position
    is_at_all = len(call.broker.registry.brokers) == 1 or call.channel.name_server is not None
    made = []
    for header, changes in wanted:
        if header.topic_filter_type not in FILTER_TYPES:
            raise InvalidArgumentError("topicFilterType", header.topic_filter_type, " or ".join(FILTER_TYPES))
        if changes.get("+message.type") == "MIXED" and not topics.takes_mixed:
            raise RemotingError(ResponseCode.INVALID_PARAMETER, _MIXED_IS_OFF)
        known = topics.find_topic(header.topic)
        current = known.config.attributes if known else None
        attributes = changed_attributes(TOPIC_ATTRIBUTES, current, changes)
        config = TopicConfig(
            header.topic_filter_type,
            header.topic_sys_flag,
            header.order,
            attributes,
        )
        sizes = header.read_queue_nums, header.write_queue_nums, header.perm
        try:
            topics.check(header.topic, *sizes)
            topics.check_is_for_clients(header.topic)
        except NoPermissionError as error:
            raise RemotingError(ResponseCode.INVALID_PARAMETER, str(error)) from None
        is_everywhere = is_at_all or is_at_all_brokers(header.topic, config)
        at = None if is_everywhere else {position: QueuesAtBroker(*sizes)}
        made.append((header.topic, *sizes, config, at))
    for one in made:
        await topics.put_by_client(*one)
    kept = [
        (name, header.topic) for header, changes in wanted for name in changes if name[1:] != MESSAGE_TYPE
    ]
    return without_effect.success(call, "topic attribute", kept)


def _topic_in(body: Mapping[str, Any]) -> tuple[CreateTopicHeader, Mapping[str, str]]:
    def whole(name: str, default: int) -> int:
        value = body.get(name, default)
        if not isinstance(value, int):
            raise InvalidArgumentError(name, value, "a whole number")
        return value

    attributes = body.get("attributes") or {}
    if not isinstance(attributes, Mapping) or not all(isinstance(one, str) for one in attributes.values()):
        raise InvalidArgumentError("attributes", attributes, "a JSON object of texts")
    header = CreateTopicHeader(
        text_in(body, "topicName"),
        whole("readQueueNums", _QUEUES),
        whole("writeQueueNums", _QUEUES),
        whole("perm", PERM_READ | PERM_WRITE),
        str(body.get("topicFilterType") or FILTER_TYPES[0]),
        whole("topicSysFlag", 0),
        body.get("order") is True,
    )
    return header, attributes


def _config(topic: Topic, at: QueuesAtBroker) -> dict[str, Any]:
    filter_type, sys_flag, order, attributes = (
        topic.config.filter_type,
        topic.config.sys_flag,
        topic.config.order,
        topic.config.attributes,
    )
    return {
        "attributes": attributes,
        "order": order,
        "perm": at.perm,
        "readQueueNums": at.read_queues,
        "topicFilterType": filter_type,
        "topicName": topic.name,
        "topicSysFlag": sys_flag,
        "writeQueueNums": at.write_queues,
    }
