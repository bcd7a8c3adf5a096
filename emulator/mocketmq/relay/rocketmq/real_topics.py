"""Real topics: on which brokers they are, and how a message gets there."""

import asyncio
import itertools
from typing import Final, NamedTuple

from mocketmq.calling.call import ClusterError, NoAnswerError
from mocketmq.calling.name_servers import NameServers
from mocketmq.clock import US_PER_S, steady_us
from mocketmq.message.properties import java_hash
from mocketmq.relay.judging import UnfitMessageError
from mocketmq.relay.rocketmq.brokers import Broker, Brokers
from mocketmq.relay.rocketmq.messages import Message

SHARDING_KEY: Final = "__SHARDINGKEY"
"""Messages with the same one go to the same queue, one after the other."""
_KNOWN_US: Final = 30 * US_PER_S
_MISSING_US: Final = US_PER_S
_DOWN_US: Final = 10 * US_PER_S


class _Target(NamedTuple):
    broker: Broker
    queue_id: int


class _Route(NamedTuple):
    targets: list[_Target] | None
    until_us: int


class RealTopics:
    """By the name server, whose answers are good for some time. Methods raise ClusterError."""

    def __init__(self, name_servers: NameServers, brokers: Brokers, group: str) -> None:
        self._name_servers = name_servers
        self._brokers = brokers
        self._group = group
        self._routes: dict[str, _Route] = {}
        self._asking = asyncio.Lock()
        self._turns = itertools.count()
        self._down: dict[str, int] = {}  # until when a broker is passed over if there is another

    async def is_unknown(self, topic: str) -> bool:
        """Whether the name server knows no such topic, though it knows all brokers that it knew lately.

        Without its broker, a topic is unknown, too.
        """
        if await self._targets(topic) is not None:
            return False
        masters = await self._name_servers.masters()
        self._routes.pop(topic, None)
        return self._brokers.are_complete(masters) and await self._targets(topic) is None

    async def send(self, topic: str, message: Message) -> None:
        """Send the message, to another broker if the first fails. Raises UnfitMessageError, too."""
        targets = await self._targets(topic)
        if targets is None and await self.is_unknown(topic):
            raise UnfitMessageError(f"the real topic {topic} does not exist")
        if not targets:
            raise ClusterError(f"topic {topic} is on no broker that can be reached and written")
        key = message.properties.get(SHARDING_KEY)
        tries = [targets[java_hash(key) % len(targets)]] if key else self._in_turn(targets)
        for number, (broker, queue_id) in enumerate(tries, 1):
            try:
                await broker.send(self._group, topic, queue_id, message)
            except ClusterError as error:
                self._routes.pop(topic, None)
                if isinstance(error, NoAnswerError):
                    self._down[broker.address] = steady_us() + _DOWN_US
                if number == len(tries):
                    raise
            else:
                return

    def _in_turn(self, targets: list[_Target]) -> list[_Target]:
        """One queue of each broker, beginning with the next in turn; what seems down comes last."""
        first = next(self._turns) % len(targets)
        by_broker: dict[str, _Target] = {}
        for each in targets[first:] + targets[:first]:
            by_broker.setdefault(each.broker.address, each)
        now_us = steady_us()
        return sorted(by_broker.values(), key=lambda each: self._down.get(each.broker.address, 0) > now_us)

    async def _targets(self, topic: str) -> list[_Target] | None:
        """The queues that can be written; None if there is no such topic."""
        async with self._asking:
            known = self._routes.get(topic)
            if known is None or known.until_us < steady_us():
                route = await self._name_servers.route(topic)
                targets = None
                if route is not None:
                    found = [(self._brokers.at(each.address, each.broker), each.writable) for each in route]
                    targets = [_Target(broker, one) for broker, count in found for one in range(count)]
                lasts_us = _MISSING_US if targets is None else _KNOWN_US
                known = self._routes[topic] = _Route(targets, steady_us() + lasts_us)
        return known.targets
