"""The name server: 105, 106 and 206 (sheet 2.1)."""

import logging
from contextlib import suppress
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from emulator.broker.broker import Broker
from emulator.errors import RefusedError, TopicNotFoundError, shorten
from emulator.message import RETRY_PREFIX, TEMPLATE_TOPIC, retry_topic
from emulator.remoting import fastjson
from emulator.remoting.codes import RequestCode, ResponseCode
from emulator.remoting.errors import RemotingError
from emulator.remoting.handler import Call, Family, Reply, Request
from emulator.remoting.header import NoHeader
from emulator.remoting.identity import BROKER, CLUSTER


class RouteInfo(NamedTuple):
    """2.1."""

    topic: str


log = logging.getLogger(__name__)

_ALI_ONS: Final = ("JAVA", 121)
"""What this client says it is. It alone does not ask for the template's route instead (sheet 7.3)."""
_FAQ: Final = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."

MAX_MISSES: Final = 1_000
"""Topics of which a log says that they are missing: names cost a client nothing."""
_misses: Final[WeakKeyDictionary[Broker, set[str]]] = WeakKeyDictionary()


async def topic_route(call: Call[RouteInfo]) -> Reply:
    """105: where a topic is. Raises RemotingError in upstream's words for one that is nowhere."""
    name = call.header.topic
    is_ali_ons = (call.command.language, call.command.version) == _ALI_ONS
    try:
        if name.startswith(RETRY_PREFIX):
            await _make_retry_topic(call.broker, name.removeprefix(RETRY_PREFIX))
        topic = await call.broker.topics.for_route(name, first_use=is_ali_ons)
        if not topic.perm:
            raise TopicNotFoundError(f"the topic[{name}] may not be used")
    except TopicNotFoundError:
        _log_miss(call)
        raise RemotingError(
            ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {name}{_FAQ}"
        ) from None
    queues = {
        "brokerName": BROKER,
        "perm": topic.perm,
        "readQueueNums": topic.read_queues,
        "topicSysFlag": 0,
        "writeQueueNums": topic.write_queues,
    }
    return _json({"brokerDatas": [_broker(call)], "filterServerTable": {}, "queueDatas": [queues]})


async def cluster_info(call: Call[NoHeader]) -> Reply:
    """106: all brokers, which is this one."""
    return _json({"brokerAddrTable": {BROKER: _broker(call)}, "clusterAddrTable": {CLUSTER: [BROKER]}})


async def topic_list(call: Call[NoHeader]) -> Reply:
    """206: the names of all topics."""
    return _json({"topicList": [topic.name for topic in call.broker.topics]})


ROUTES: Final = Family(
    "The name server",
    {
        RequestCode.GET_ROUTEINFO_BY_TOPIC: Request(RouteInfo, topic_route),
        RequestCode.GET_BROKER_CLUSTER_INFO: Request(NoHeader, cluster_info),
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Request(NoHeader, topic_list),
    },
)


async def _make_retry_topic(broker: Broker, name: str) -> None:
    """Let a consumer find it before its group's first heartbeat, or 5.x asks again after twenty seconds."""
    with suppress(RefusedError):
        group = await broker.groups.for_use(name)
        await broker.topics.ensure(retry_topic(group.name), group.retry_queues)


def _log_miss(call: Call[RouteInfo]) -> None:
    """Say it once for each topic, and what would help."""
    name, misses = call.header.topic, _misses.setdefault(call.broker, set())
    if name in misses or len(misses) >= MAX_MISSES or name == TEMPLATE_TOPIC or name.startswith(RETRY_PREFIX):
        return
    misses.add(name)
    if call.settings.auto_create_topics:
        log.info(
            "topic %s is not there yet: the first send makes it, or mocketmq topics create", shorten(name)
        )
    else:
        log.warning(
            "topic %s is not there, and auto_create_topics is off: mocketmq topics create makes it, or a"
            " [[topics]] table of the configuration",
            shorten(name),
        )


def _broker(call: Call[Any]) -> dict[str, Any]:
    return {
        "brokerAddrs": {"0": call.channel.advertised},
        "brokerName": BROKER,
        "cluster": CLUSTER,
        "enableActingMaster": False,
    }


def _json(value: dict[str, Any]) -> Reply:
    """Without spaces, and with keys in quotes, which one client or another needs (sheet 12)."""
    return Reply(body=fastjson.dumps(value))
