"""A client of name servers, which looks up the brokers of a topic, and each broker's master."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from mocketmq.calling.call import ClusterError, NoAnswerError
from mocketmq.calling.connection import Answer, ClientConnection
from mocketmq.calling.headers import READ, WRITE
from mocketmq.clock import US_PER_S, steady_us
from mocketmq.errors import EmulatorError
from mocketmq.remoting.wire import fastjson
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode

_MASTER: Final = "0"
_KNOWN_US: Final = 30 * US_PER_S
"""Real time within which a name server learns of a new topic."""
_AGAIN_S: Final = 0.1


class BrokerQueues(NamedTuple):
    """The queues of a topic on a broker, with the ``address`` of the broker's master."""

    broker: str
    address: str
    readable: int  # number of queues for consumers
    writable: int  # number of queues for producers


class NameServers:
    """Name servers, separated by commas or semicolons. Each request uses the first one that answers.

    The next request begins with the name server used last. ``note`` is called with a sentence for each name
    server that does not answer. ``without_master`` maps each topic, and each broker that the topic's last
    route left out because the broker has no master, to the number of readable queues there.
    """

    def __init__(
        self, addresses: str, connect: Callable[[str], ClientConnection], note: Callable[[str], object]
    ) -> None:
        self._servers = [connect(each.strip()) for each in addresses.replace(";", ",").split(",")]
        self._note = note
        self.without_master: dict[str, dict[str, int]] = {}

    async def route(self, topic: str) -> list[BrokerQueues] | None:
        """Return the brokers of the topic, or None if the topic does not exist. Raises ClusterError."""
        answer = await self._ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        route = object_in(answer, f"the name server returned no route for topic {topic}")
        addresses = _masters(route["brokerDatas"])
        self.without_master[topic] = {
            each["brokerName"]: queues
            for each in route["queueDatas"]
            if each["brokerName"] not in addresses and (queues := _readable(each))
        }
        return [
            BrokerQueues(
                name,
                addresses[name],
                _readable(each),
                int(each["writeQueueNums"]) if int(each["perm"]) & WRITE else 0,
            )
            for each in route["queueDatas"]
            if (name := each["brokerName"]) in addresses
        ]

    async def new_route(self, topic: str) -> list[BrokerQueues]:
        """Wait for the route of a newly created topic, and return its brokers. Raises ClusterError."""
        until_us = steady_us() + _KNOWN_US
        while (route := await self.route(topic)) is None:
            if steady_us() > until_us:
                raise ClusterError(f"the name server still does not list topic {topic} after its creation")
            await asyncio.sleep(_AGAIN_S)
        return route

    async def masters(self) -> dict[str, str]:
        """Return the address of each broker's master, by the broker's name. Raises ClusterError."""
        answer = await self._ask(RequestCode.GET_BROKER_CLUSTER_INFO)
        table = object_in(answer, "the name server listed no brokers")["brokerAddrTable"]
        masters = _masters(table.values())
        if not masters:
            raise ClusterError("the name server lists no master broker")
        return masters

    async def close(self) -> None:
        for server in self._servers:
            await server.close()

    async def _ask(self, code: int, ext: Mapping[str, str] | None = None) -> Answer:
        servers, trouble = self._servers, ""
        for number, server in enumerate(servers):
            if trouble:
                self._note(trouble)
            try:
                answer = await server.call(code, ext)
            except NoAnswerError as error:
                trouble = str(error)
            else:
                self._servers = servers[number:] + servers[:number]
                return answer
        raise NoAnswerError(f"no name server answered: {trouble}")


def object_in(answer: Answer, failed: str) -> Mapping[str, Any]:
    """Parse the JSON object in a response. Raises ClusterError."""
    if answer.code != ResponseCode.SUCCESS:
        raise ClusterError(f"{failed}: {answer.reason}")
    try:
        found = fastjson.loads(answer.body)
    except EmulatorError as error:
        raise ClusterError(f"{failed}: {error}") from None
    if not isinstance(found, Mapping):
        raise ClusterError(f"{failed}: its answer is not a JSON object")
    return found


def _masters(brokers: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {
        each["brokerName"]: each["brokerAddrs"][_MASTER] for each in brokers if _MASTER in each["brokerAddrs"]
    }


def _readable(queues: Mapping[str, Any]) -> int:
    return int(queues["readQueueNums"]) if int(queues["perm"]) & READ else 0
