"""The cluster that is probed: its brokers, found by the name server, and the topic and group of the probe."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mocketmq.clock import US_PER_MS, US_PER_S, steady_us
from mocketmq.errors import EmulatorError
from mocketmq.message.properties import encode_properties
from mocketmq.probe.connection import Account, Answer, Connection, NoAnswerError, ProbeError
from mocketmq.remoting.wire import fastjson
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.schedule.level_table import LevelTable
from mocketmq.settings import Settings

_READ, _WRITE = 4, 2
"""Bits of a topic's permission (PermName.java)."""
_MASTER: Final = "0"
_DEFAULT_TOPIC: Final = "TBW102"
_ROUTE_S: Final = 30.0
_FIGURES_S: Final = 10.0
_POLL_S: Final = 0.1


@dataclass
class ProbedBroker:
    """A master, and the queues of the probe's topic there. Pulls have a connection of their own."""

    name: str
    address: str
    requests: Connection
    pulls: Connection
    write_queues: int
    read_queues: int
    version: str = "unknown"


class Cluster:
    """What a name server knows. ``notes`` are sentences on what could not be found out."""

    def __init__(self, name_servers: str, account: Account | None) -> None:
        self.notes: list[str] = []
        self.brokers: list[ProbedBroker] = []
        self.table = LevelTable.parse(Settings().levels)
        self._account = account
        self._name_servers = [
            Connection(each.strip(), account) for each in name_servers.replace(";", ",").split(",")
        ]

    async def open(self, topic: str) -> None:
        """Find the brokers of the topic, which is made if it does not exist. Raises ProbeError."""
        route = await self._route(topic)
        if route is None:
            await self._make_topic(topic)
            until_us = steady_us() + round(_ROUTE_S * US_PER_S)
            while (route := await self._route(topic)) is None:
                if steady_us() > until_us:
                    raise ProbeError(f"the name server does not know topic {topic} after it was made")
                await asyncio.sleep(_POLL_S)
        addresses = _masters(route["brokerDatas"])
        for queues in route["queueDatas"]:
            name, perm = queues["brokerName"], int(queues["perm"])
            if name in addresses and perm & _READ and perm & _WRITE:
                address = addresses[name]
                self.brokers.append(
                    ProbedBroker(
                        name,
                        address,
                        Connection(address, self._account),
                        Connection(address, self._account),
                        int(queues["writeQueueNums"]),
                        int(queues["readQueueNums"]),
                    )
                )
        if not self.brokers:
            raise ProbeError(f"topic {topic} cannot be both written and read on any broker with a master")
        await self._ask_brokers()

    async def close(self) -> None:
        """Close all connections."""
        brokers = [each for broker in self.brokers for each in (broker.requests, broker.pulls)]
        for connection in (*brokers, *self._name_servers):
            await connection.close()

    async def _ask_name_server(self, code: int, ext: Mapping[str, str] | None = None) -> Answer:
        """The answer of the first that gives one."""
        for connection in self._name_servers[:-1]:
            try:
                return await connection.call(code, ext)
            except NoAnswerError as error:
                if (sentence := str(error)) not in self.notes:
                    self.notes.append(sentence)
        try:
            return await self._name_servers[-1].call(code, ext)
        except NoAnswerError as error:
            raise NoAnswerError(f"no name server: {error}") from None

    async def _route(self, topic: str) -> Mapping[str, Any] | None:
        answer = await self._ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        return _object(answer, f"the name server gives no route of topic {topic}")

    async def _make_topic(self, topic: str) -> None:
        answer = await self._ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        table = _object(answer, "the name server lists no brokers")["brokerAddrTable"]
        masters = _masters(table.values())
        if not masters:
            raise ProbeError("the name server knows no broker that is a master")
        ext = {
            "topic": topic,
            "defaultTopic": _DEFAULT_TOPIC,
            "readQueueNums": "1",
            "writeQueueNums": "1",
            "perm": str(_READ | _WRITE),
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        for name, address in masters.items():
            connection = Connection(address, self._account)
            try:
                made = await connection.call(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
            except NoAnswerError as error:
                raise _out_of_reach(name, error) from None
            finally:
                await connection.close()
            if made.code != ResponseCode.SUCCESS:
                raise ProbeError(
                    f"topic {topic} does not exist, and broker {name} does not make it: {made.reason};"
                    " name a topic that exists with --topic"
                )

    async def _ask_brokers(self) -> None:
        """Read the versions and the delay levels, which may be forbidden."""
        tables = set()
        for broker in self.brokers:
            try:
                info = await _figures(broker)
                config = await broker.requests.call(RequestCode.GET_BROKER_CONFIG)
            except NoAnswerError as error:
                raise _out_of_reach(broker.name, error) from None
            if info.code == ResponseCode.SUCCESS:
                figures = _object(info, "no figures").get("table", {})
                broker.version = str(figures.get("brokerVersionDesc", broker.version))
            for line in config.body.decode("utf-8", "replace").splitlines():
                name, _, value = line.partition("=")
                if name.strip() == "messageDelayLevel":
                    tables.add(value.strip())
        if len(tables) > 1:
            raise ProbeError(f"the brokers differ in their delay levels: {'; '.join(sorted(tables))}")
        if tables:
            self.table = LevelTable.parse(tables.pop())
        else:
            self.notes.append(f"no broker tells its delay levels: taken to be {self.table.text}")

    async def open_group(self, broker: ProbedBroker, topic: str, group: str) -> None:
        """Make sure that the group may pull. Raises ProbeError."""
        pulled = await broker.requests.call(
            RequestCode.PULL_MESSAGE, pull_ext(topic, group, 0, await end_of(broker, topic, 0))
        )
        if pulled.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            config = {"groupName": group, "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0}
            flags = ("consumeEnable", "consumeFromMinEnable", "consumeBroadcastEnable")
            body = json.dumps(config | dict.fromkeys(flags, True) | {"whichBrokerWhenConsumeSlowly": 1})
            made = await broker.requests.call(
                RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body.encode()
            )
            if made.code != ResponseCode.SUCCESS:
                raise ProbeError(
                    f"group {group} does not exist, and broker {broker.name} does not make it:"
                    f" {made.reason}; name a group that exists with --group"
                )
        elif pulled.code == ResponseCode.NO_PERMISSION:
            raise ProbeError(f"group {group} may not read topic {topic}: {pulled.reason}")


def pull_ext(topic: str, group: str, queue_id: int, offset: int, suspend_ms: int = 0) -> dict[str, str]:
    """The header of a pull from there, which waits so long for messages."""
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(4 | (2 if suspend_ms else 0)),  # it says what it subscribes to; it may wait
        "commitOffset": "0",
        "suspendTimeoutMillis": str(suspend_ms),
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }


def send_ext(
    topic: str, group: str, queue_id: int, born_us: int, properties: dict[str, str]
) -> dict[str, str]:
    """The header of a send, of a message born then by our wall clock."""
    return {
        "producerGroup": group,
        "topic": topic,
        "defaultTopic": _DEFAULT_TOPIC,
        "defaultTopicQueueNums": "4",
        "queueId": str(queue_id),
        "sysFlag": "0",
        "bornTimestamp": str(born_us // US_PER_MS),
        "flag": "0",
        "properties": encode_properties(properties),
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": "false",
    }


async def _figures(broker: ProbedBroker) -> Answer:
    """What the broker tells of itself. 4.9 fails until its first sample, a second after its start."""
    until_us = steady_us() + round(_FIGURES_S * US_PER_S)
    while True:
        answer = await broker.requests.call(RequestCode.GET_BROKER_RUNTIME_INFO)
        if answer.code != ResponseCode.SYSTEM_ERROR or steady_us() > until_us:
            return answer
        await asyncio.sleep(_POLL_S)


async def end_of(broker: ProbedBroker, topic: str, queue_id: int) -> int:
    """The offset of the next message of a queue. Raises ProbeError."""
    answer = await broker.requests.call(
        RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)}
    )
    if answer.code != ResponseCode.SUCCESS:
        raise ProbeError(f"broker {broker.name} does not tell the end of topic {topic}: {answer.reason}")
    return int(answer.ext["offset"])


def _masters(brokers: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The address of each broker's master by the broker's name."""
    return {
        each["brokerName"]: each["brokerAddrs"][_MASTER] for each in brokers if _MASTER in each["brokerAddrs"]
    }


def _object(answer: Answer, failed: str) -> Mapping[str, Any]:
    """The JSON object in the answer. Raises ProbeError."""
    if answer.code != ResponseCode.SUCCESS:
        raise ProbeError(f"{failed}: {answer.reason}")
    try:
        found = fastjson.loads(answer.body)
    except EmulatorError as error:
        raise ProbeError(f"{failed}: {error}") from None
    if not isinstance(found, Mapping):
        raise ProbeError(f"{failed}: its answer is no object")
    return found


def _out_of_reach(name: str, error: NoAnswerError) -> NoAnswerError:
    return NoAnswerError(f"the name server names broker {name}, but {error}")
