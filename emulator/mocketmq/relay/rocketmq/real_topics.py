"""Sends messages to their real topics, looks up routes, and avoids brokers that do not answer."""

import asyncio
import itertools
from typing import Final, NamedTuple

from mocketmq.calling.call import ClusterError, NoAnswerError
from mocketmq.calling.name_servers import NameServers
from mocketmq.clock import US_PER_S, steady_us
from mocketmq.errors import EmulatorError
from mocketmq.message.properties import java_hash
from mocketmq.relay.judging import UnfitMessageError
from mocketmq.relay.rocketmq.brokers import RemoteBroker, RemoteBrokers
from mocketmq.relay.rocketmq.messages import MessageContent

SHARDING_KEY: Final = "__SHARDINGKEY"
"""Property with the sharding key. Messages with the same key go to the same queue, one after the other."""
_KNOWN_US: Final = 30 * US_PER_S
_MISSING_US: Final = US_PER_S
_MOST_KNOWN: Final = 1_000
_AGAIN_US: Final = US_PER_S
_ONE_TRY_US: Final = 30 * US_PER_S
"""Time reserved for a single attempt at a broker that did not answer; longer than a send takes."""


class _Target(NamedTuple):
    broker: RemoteBroker
    queue_id: int


class _Route(NamedTuple):
    targets: list[_Target] | None
    until_us: int


class _Silence(NamedTuple):
    """The error of a broker that did not answer, and the time to try the broker again."""

    reason: str
    until_us: int


class RealTopics:
    """Sends to real topics, with routes cached from the name server. Methods raise ClusterError."""

    def __init__(self, name_servers: NameServers, brokers: RemoteBrokers, group: str) -> None:
        self.most_known = _MOST_KNOWN
        self._name_servers = name_servers
        self._brokers = brokers
        self._group = group
        self._routes: dict[str, _Route] = {}
        self._asking = asyncio.Lock()
        self._turns = itertools.count()
        self._down: dict[str, _Silence] = {}  # by address

    async def is_unknown(self, topic: str) -> bool:
        """Whether the topic does not exist, according to a name server that knows all recent brokers.

        If a broker is missing from the name server, its topics are missing, too.
        """
        if await self._targets(topic) is not None:
            return False
        masters = await self._name_servers.masters()
        self._routes.pop(topic, None)
        return self._brokers.are_complete(masters) and await self._targets(topic) is None

    async def send(self, topic: str, message: MessageContent) -> None:
        """Send the message; if a broker fails, try other brokers. Also raises UnfitMessageError."""
        targets = await self._targets(topic)
        if targets is None and await self.is_unknown(topic):
            raise UnfitMessageError(f"the real topic {topic} does not exist")
        if not targets:
            raise ClusterError(f"no broker of topic {topic} is both reachable and writable")
        key = message.properties.get(SHARDING_KEY)
        tries = [targets[java_hash(key) % len(targets)]] if key else self._in_turn(targets)
        for number, (broker, queue_id) in enumerate(tries, 1):
            try:
                await self._send_to(broker, topic, queue_id, message)
            except ClusterError:
                if number == len(tries):
                    raise
            else:
                return

    async def _send_to(
        self, broker: RemoteBroker, topic: str, queue_id: int, message: MessageContent
    ) -> None:
        """Send to this broker. If it has just failed to answer, only one message at a time is sent to it.

        Otherwise every message would wait for the time limit of a hung broker, and delay later messages.
        """
        address, began_us = broker.address, steady_us()
        if silence := self._down.get(address):
            if silence.until_us > began_us:
                raise NoAnswerError(silence.reason)
            self._down[address] = silence._replace(until_us=began_us + _ONE_TRY_US)
        try:
            await broker.send(self._group, topic, queue_id, message)
        except NoAnswerError as error:
            self._routes.pop(topic, None)
            now_us = steady_us()
            self._down[address] = _Silence(str(error), now_us + max(_AGAIN_US, now_us - began_us))
            raise
        except EmulatorError:  # the broker answered
            self._routes.pop(topic, None)
            self._down.pop(address, None)
            raise
        self._down.pop(address, None)

    def _in_turn(self, targets: list[_Target]) -> list[_Target]:
        """Return one queue of each broker, in rotation. Brokers that seem down come last."""
        first = next(self._turns) % len(targets)
        by_broker: dict[str, _Target] = {}
        for each in targets[first:] + targets[:first]:
            by_broker.setdefault(each.broker.address, each)
        now_us = steady_us()
        silent = {address for address, each in self._down.items() if each.until_us > now_us}
        return sorted(by_broker.values(), key=lambda each: each.broker.address in silent)

    async def _targets(self, topic: str) -> list[_Target] | None:
        """Return the writable queues, or None if the topic does not exist."""
        async with self._asking:
            known = self._routes.get(topic)
            now_us = steady_us()
            if known is None or known.until_us < now_us:
                if len(self._routes) >= self.most_known:
                    self._routes = {
                        name: each for name, each in self._routes.items() if each.until_us >= now_us
                    }
                route = await self._name_servers.route(topic)
                targets = None
                if route is not None:
                    found = [(self._brokers.at(each.address, each.broker), each.writable) for each in route]
                    targets = [_Target(broker, one) for broker, count in found for one in range(count)]
                lasts_us = _MISSING_US if targets is None else _KNOWN_US
                known = self._routes[topic] = _Route(targets, steady_us() + lasts_us)
        return known.targets
