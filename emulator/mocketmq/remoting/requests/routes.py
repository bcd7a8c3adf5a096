"""Requests to the name server about routes, topics and the cluster (docs/protocol/remoting.md §2.1)."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final
from weakref import WeakKeyDictionary

from mocketmq.access.needs import Action
from mocketmq.broker.broker import Broker
from mocketmq.broker.registry.brokers import BrokerCondition, RegisteredBroker
from mocketmq.broker.registry.topic import PERM_WRITE, Topic
from mocketmq.errors import RefusedError, TopicNotFoundError, shorten
from mocketmq.hosts import split_address, with_port
from mocketmq.message.names import CLUSTER, DLQ_PREFIX, RETRY_PREFIX, TEMPLATE_TOPIC
from mocketmq.remoting.access_rule import OPEN, administers, looks_for
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.mapping_json import mapping_info
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.wire import fastjson
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.header import NoHeader, RequestHeader, TopicHeader
from mocketmq.rocketmq_versions import V3_4_9


class ClusterHeader(RequestHeader):
    """Header of the request for a cluster's topics."""

    cluster: str


class BrokerHeader(RequestHeader):
    """Header of requests that name a broker."""

    broker_name: str


class UnregisterTopicHeader(RequestHeader):
    """Without ``cluster_name``, the topic is removed from all clusters."""

    topic: str
    cluster_name: str = ""


log = logging.getLogger(__name__)

_ALI_ONS: Final = ("JAVA", V3_4_9)
"""Language and version of ali-ons, the only client that never falls back to the template topic's route."""
_FAQ: Final = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."

_UNIT, _UNIT_SUBSCRIBERS = 1, 2
_UNIT_FLAGS: Final = _UNIT | _UNIT_SUBSCRIBERS
"""Bits of a topic's flags (TopicSysFlag.java, 4.9.8)."""

MAX_MISSES: Final = 1_000
"""Maximum number of missing topics that are logged, because clients can request any number of names."""
_misses: Final[WeakKeyDictionary[Broker, set[str]]] = WeakKeyDictionary()


ROUTES: Final = RequestFamily("The name server")


@Request(ROUTES, RequestCode.GET_ROUTEINFO_BY_TOPIC, access=looks_for("topic"))
async def topic_route(call: RemotingCall[TopicHeader]) -> Response:
    """Return a topic's route. Raises RemotingError, in RocketMQ's words, if there is none."""
    name = call.header.topic
    is_ali_ons = (call.command.language, call.command.version) == _ALI_ONS
    registry = call.broker.registry
    topics = registry.topics
    try:
        if not call.is_authorized:
            topic = topics.get(name)
        else:
            await _make_topic_of_group(call.broker, name)
            topic = await registry.used_topics.for_route(name, is_needed=is_ali_ons)
        if (
            not topic.perm and name == TEMPLATE_TOPIC
        ):  # the template topic still exists, but is no longer used
            raise TopicNotFoundError(f"the topic[{name}] may not be used")
    except TopicNotFoundError as error:
        _log_miss(call, error)
        raise _no_route(name) from None
    routed = [each for each in _routed(call, topic.brokers) if topic.is_at(each.share.position)]
    if not routed:
        raise _no_route(name)
    queues = []
    for each in routed:
        at = topic.at_broker(each.share.position)
        perm = each.permits(registry.name_server.perm(at.perm, each.name))
        queue_data = {
            "brokerName": each.name,
            "perm": perm & ~PERM_WRITE if _has_acting_master(call, each) else perm,
            "readQueueNums": at.read_queues,
            "topicSysFlag": topic.config.sys_flag,
            "writeQueueNums": at.write_queues,
        }
        queues.append(queue_data)
    datas = [_broker_data(call, each, shows_acting=True) for each in routed]
    route: dict[str, Any] = {"brokerDatas": datas, "filterServerTable": {}, "queueDatas": queues}
    mappings = {each.broker: mapping_info(name, each) for each in topic.config.mappings if each is not None}
    if mappings:
        route["topicQueueMappingByBroker"] = mappings
    order = registry.name_server.order(name)
    return _json(route if order is None else route | {"orderTopicConf": order})


@Request(ROUTES, RequestCode.GET_BROKER_CLUSTER_INFO, access=OPEN)
async def cluster_info(call: RemotingCall[NoHeader]) -> Response:
    """List the brokers."""
    table = {each.name: _broker_data(call, each) for each in _routed(call)}
    return _json({"brokerAddrTable": table, "clusterAddrTable": {CLUSTER: list(table)}})


@Request(ROUTES, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, access=OPEN)
async def topic_list(call: RemotingCall[NoHeader]) -> Response:
    """List all topics."""
    return _topics(call)


@Request(ROUTES, RequestCode.GET_TOPICS_BY_CLUSTER, access=OPEN)
async def topics_of_cluster(call: RemotingCall[ClusterHeader]) -> Response:
    """List all topics of a cluster."""
    return _topics(call, lambda _: call.header.cluster == CLUSTER)


@Request(ROUTES, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, access=OPEN)
async def system_topics(call: RemotingCall[NoHeader]) -> Response:
    """List the names of clusters and brokers, which are reserved as topic names, and a broker's address."""
    names = [each.name for each in _routed(call)]
    return _json({"brokerAddr": call.channel.advertised, "topicList": [CLUSTER, *names]})


@Request(ROUTES, RequestCode.GET_UNIT_TOPIC_LIST, access=OPEN)
async def unit_topics(call: RemotingCall[NoHeader]) -> Response:
    """List topics that belong to a unit."""
    return _topics(call, lambda topic: bool(topic.config.sys_flag & _UNIT))


@Request(ROUTES, RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, access=OPEN)
async def topics_with_unit_subscribers(call: RemotingCall[NoHeader]) -> Response:
    """List topics that have subscribers in units."""
    return _topics(call, lambda topic: bool(topic.config.sys_flag & _UNIT_SUBSCRIBERS))


@Request(ROUTES, RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, access=OPEN)
async def common_topics_with_unit_subscribers(call: RemotingCall[NoHeader]) -> Response:
    """List topics that have subscribers in units, and belong to no unit."""
    return _topics(call, lambda topic: topic.config.sys_flag & _UNIT_FLAGS == _UNIT_SUBSCRIBERS)


@Request(ROUTES, RequestCode.WIPE_WRITE_PERM_OF_BROKER, access=administers(Action.UPDATE))
async def wipe_write_perm(call: RemotingCall[BrokerHeader]) -> Response:
    """Make all routes show that a broker accepts no messages."""
    return Response({"wipeTopicCount": str(_set_writable(call, is_writable=False))})


@Request(ROUTES, RequestCode.ADD_WRITE_PERM_OF_BROKER, access=administers(Action.UPDATE))
async def add_write_perm(call: RemotingCall[BrokerHeader]) -> Response:
    """Make all routes show the permissions of their topics again."""
    return Response({"addTopicCount": str(_set_writable(call, is_writable=True))})


@Request(ROUTES, RequestCode.DELETE_TOPIC_IN_NAMESRV, access=administers(Action.UPDATE))
async def unregister_topic(call: RemotingCall[UnregisterTopicHeader]) -> Response:
    """Remove a topic from the name server. If the broker has already deleted the topic, nothing happens.

    Raises RemotingError for a topic that the broker has, because both share one list of topics.
    """
    topic = call.header.topic
    if call.header.cluster_name in ("", CLUSTER) and call.broker.registry.topics.find_topic(topic):
        raise RemotingError(
            ResponseCode.SYSTEM_ERROR,
            f"topic {shorten(topic)} exists in the broker, which shares this process; delete it there",
        )
    return Response()


async def _make_topic_of_group(broker: Broker, topic: str) -> None:
    """Create the retry topic of a new or known group, or the dead-letter topic of a known group.

    Clients of 5.x request the retry topic before their group's first heartbeat, and again only after twenty
    seconds. These clients also request ``<group>_<topic>``, a retry topic for popped messages, which mocketmq
    does not use.
    """
    topics, groups = broker.registry.topics, broker.registry.groups
    group = topic.removeprefix(RETRY_PREFIX).removeprefix(DLQ_PREFIX)
    if topic.startswith(DLQ_PREFIX):
        if broker.registry.used_topics.auto_create_by_route and groups.find_group(group):
            await topics.ensure(topic, 1)
    elif topic.startswith(RETRY_PREFIX) and not broker.pops.is_retry(group):
        with suppress(RefusedError):
            await topics.ensure(topic, (await groups.for_use(group)).retry_queues)


def _log_miss(call: RemotingCall[TopicHeader], error: TopicNotFoundError) -> None:
    """Log how to create a missing topic, once per topic."""
    name, misses = call.header.topic, _misses.setdefault(call.broker, set())
    if name in misses or len(misses) >= MAX_MISSES or name == TEMPLATE_TOPIC or name.startswith(RETRY_PREFIX):
        return
    misses.add(name)
    level = logging.INFO if call.broker.registry.used_topics.auto_create else logging.WARNING
    log.log(level, "no route: %s", error)


def _topics(call: RemotingCall[Any], is_wanted: Callable[[Topic], bool] = lambda _: True) -> Response:
    return _json({"topicList": [topic.name for topic in call.broker.registry.topics if is_wanted(topic)]})


def _set_writable(call: RemotingCall[BrokerHeader], *, is_writable: bool) -> int:
    """Set whether routes show that the broker accepts messages; return the number of topics changed."""
    registry, name = call.broker.registry, call.header.broker_name
    if name not in registry.brokers.names:
        return 0
    registry.name_server.set_writable(name, is_writable=is_writable)
    return sum(1 for _ in registry.topics)


def _no_route(topic: str) -> RemotingError:
    return RemotingError(
        ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {topic}{_FAQ}"
    )


def _routed(call: RemotingCall[Any], brokers: int | None = None) -> Sequence[RegisteredBroker]:
    """The brokers that the name server lists.

    If the client asks a broker instead, these are the brokers that name servers list by default. A broker
    that is no longer listed remains in routes while its slave runs.
    """
    view, registry = call.channel.name_server, call.broker.registry
    listed = registry.brokers.routed(brokers) if view is None else view.routed(brokers)
    if not call.settings.slaves:
        return listed
    hidden = () if view is None else view.hidden
    some = islice(registry.brokers, brokers)
    return [
        each
        for each in some
        if each in listed or not (_seen(call, each).is_slave_down or each.name in hidden)
    ]


def _seen(call: RemotingCall[Any], registered: RegisteredBroker) -> BrokerCondition:
    """A broker's condition as the name server knows it; the actual condition if the client asks a broker."""
    view = call.channel.name_server
    return registered.condition if view is None else view.condition(registered)


def _broker_data(
    call: RemotingCall[Any], registered: RegisteredBroker, *, shows_acting: bool = False
) -> dict[str, Any]:
    """A broker with its addresses. As in RocketMQ, only routes show an acting master; its id is 0."""
    addresses = _addresses(call, registered)
    if shows_acting and _has_acting_master(call, registered):
        addresses = {"0": addresses[str(registered.slave_id)]}
    return {
        "brokerAddrs": addresses,
        "brokerName": registered.name,
        "cluster": CLUSTER,
        "enableActingMaster": call.broker.registry.brokers.has_acting_masters,
    }


def _has_acting_master(call: RemotingCall[Any], registered: RegisteredBroker) -> bool:
    """Whether a slave stands in for the broker, as far as the name server knows (RouteInfoManager.java)."""
    is_acting = call.broker.registry.brokers.has_acting_masters and not _is_listed(call, registered)
    return is_acting and registered.has_slave and not _seen(call, registered).is_slave_down


def _is_listed(call: RemotingCall[Any], registered: RegisteredBroker) -> bool:
    view = call.channel.name_server
    return call.broker.registry.brokers.is_routed(registered) if view is None else view.lists(registered)


def _addresses(call: RemotingCall[Any], registered: RegisteredBroker) -> dict[str, str]:
    """The addresses of the broker and of its slave, by their ids."""
    address = call.channel.advertised
    host, port = split_address(registered.advertise or address, 0)
    if registered.share.position != call.channel.share.position:
        address = with_port(host, (registered.advertise and port) or registered.port)
    if registered.slave_port is None:
        return {"0": address}
    own = with_port(host, (registered.advertise and port) or registered.port)
    other = with_port(host, registered.slave_port)
    condition = _seen(call, registered)
    master_address, slave_address = (other, own) if condition.is_promoted else (own, other)
    found = {"0": master_address} if _is_listed(call, registered) else {}
    slave = {} if condition.is_slave_down else {str(registered.slave_id): slave_address}
    return {**found, **slave}


def _json(value: dict[str, Any]) -> Response:
    """A response in compact, standard JSON, because some clients read nothing else (§12.3)."""
    return Response(body=fastjson.dumps(value))
