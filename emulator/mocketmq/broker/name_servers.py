"""The cluster's name servers, each of which may give clients wrong information about the brokers.

By default, a name server lists brokers by their conditions in ``broker/registry/brokers.py``. A test can stop
a name server, or make it omit a broker, keep listing a broker that has gone, or ignore all changes. A restart
of the process undoes this.
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import islice

from mocketmq.broker.outage import Outage
from mocketmq.broker.registry.brokers import BrokerCondition, ClusterBrokers, RegisteredBroker
from mocketmq.errors import NameServerNotFoundError
from mocketmq.event_loop import completed


class NameServerView:
    """One name server, by its ``number`` from 1 on, and the brokers that it lists.

    ``port`` is 0 without remoting.
    """

    def __init__(self, number: int, brokers: ClusterBrokers) -> None:
        self.number = number
        self.port = 0
        self.is_stopped = False
        self._brokers = brokers
        self._errors: dict[str, bool] = {}  # by broker: whether it is listed, whatever its condition
        self._frozen: dict[str, BrokerCondition] = {}

    @property
    def hidden(self) -> list[str]:
        """The brokers that it omits, regardless of their condition."""
        return [name for name, is_listed in self._errors.items() if not is_listed]

    @property
    def kept(self) -> list[str]:
        """The brokers that it lists, regardless of their condition."""
        return [name for name, is_listed in self._errors.items() if is_listed]

    def routed(self, brokers: int | None = None) -> Sequence[RegisteredBroker]:
        """The brokers that this name server lists, out of all brokers or the first ``brokers``."""
        return [each for each in islice(self._brokers, brokers) if self.lists(each)]

    def lists(self, broker: RegisteredBroker) -> bool:
        """Whether it lists the broker."""
        is_listed = self._errors.get(broker.name)
        return self._brokers.is_routed(broker) if is_listed is None else is_listed

    def condition(self, broker: RegisteredBroker) -> BrokerCondition:
        """The broker's condition as this name server knows it, which determines the ports in routes."""
        return self._frozen.get(broker.name, broker.condition)

    def freeze(self) -> None:
        """Ignore all changes from now on, and keep listing the brokers that it lists now."""
        self._errors = {each.name: self.lists(each) for each in self._brokers}
        self._frozen = {each.name: self.condition(each) for each in self._brokers}

    def set_listed(self, name: str, *, is_listed: bool) -> None:
        """List or omit a broker, regardless of its condition. Raises BrokerNotFoundError."""
        self._errors[self._brokers.broker_named(name).name] = is_listed

    def correct(self) -> None:
        """List the brokers by their conditions again."""
        self._errors.clear()
        self._frozen.clear()


class NameServerViews:
    """All name servers. ``outage`` closes the ports of stopped name servers."""

    def __init__(self, brokers: ClusterBrokers, outage: Outage, count: int) -> None:
        self._all = [NameServerView(index + 1, brokers) for index in range(count)]
        self._outage = outage
        self._lock = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[NameServerView]:
        return iter(self._all)

    def numbered(self, number: int) -> NameServerView:
        """The name server with this number, from 1 on. Raises NameServerNotFoundError."""
        if not 1 <= number <= len(self._all):
            raise NameServerNotFoundError(number, len(self._all))
        return self._all[number - 1]

    @completed
    async def set_stopped(self, number: int, *, is_stopped: bool) -> NameServerView:
        """Close the port of a name server and end its connections, or open it again."""
        found = self.numbered(number)
        async with self._lock:
            found.is_stopped = is_stopped
            await self._outage.update()
        return found

    async def correct_all(self) -> None:
        """Start every name server, and make all of them list the brokers by their conditions again."""
        for each in self._all:
            each.correct()
            if each.is_stopped:
                await self.set_stopped(each.number, is_stopped=False)
