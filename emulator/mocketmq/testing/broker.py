"""The broker of a test: the blocking client, and what tests want besides."""

from collections.abc import Iterable
from typing import Literal
from urllib.parse import urlsplit

from mocketmq.client.answer import JsonObject
from mocketmq.client.blocking import BlockingClient
from mocketmq.testing.clock import Clock
from mocketmq.testing.faults import Faults
from mocketmq.testing.process import BrokerProcess

__tracebackhide__ = True
"""pytest shows the line of the test that called, instead of what is here."""


class Broker(BlockingClient):
    """A broker with all operations of :class:`BlockingClient`; in ``process`` if it was started here."""

    # Callable, so ``broker.clock()`` still works although the attribute shadows the method.
    clock: Clock
    faults: Faults

    def __init__(self, url: str, *, token: str | None = None, process: BrokerProcess | None = None) -> None:
        super().__init__(url, token)
        self.token = token
        self.process = process
        self.doors = self.info()["doors"]
        self.clock = Clock(self)
        self.faults = Faults(self)

    @property
    def http_url(self) -> str:
        """The address of the JSON API and of Aliyun's HTTP protocol."""
        return self.url

    @property
    def name_server(self) -> str:
        """``host:port`` of the name server, for RocketMQ's clients."""
        return self._address("namesrv")

    @property
    def grpc_endpoint(self) -> str:
        """``host:port`` for the gRPC clients of RocketMQ 5."""
        return self._address("grpc")

    def _address(self, door: Literal["namesrv", "grpc"]) -> str:
        """At the host of ``url``, by which the broker was reached."""
        if door not in self.doors:
            raise AttributeError(f"the broker at {self.url} does not listen for this; it has {self.doors}")
        host = str(urlsplit(self.url).hostname)
        return f"{f'[{host}]' if ':' in host else host}:{self.doors[door]['port']}"

    @property
    def has_died(self) -> bool:
        """Whether its process has ended by itself."""
        return self.process is not None and not self.process.is_running

    def begin(self, topics: Iterable[str], *, forget: bool = False) -> None:
        """Begin a test: with the topics, and without messages, faults and moves of the clock of another.

        With ``forget`` also without its topics and groups.
        """
        self.reset(clock="start", forget=forget)
        for topic in topics:
            self.create_topic(topic)

    def create_topic(self, name: str, *, queues: int = 4) -> JsonObject:
        """Create the topic, or change it. ``put_topic`` sets its permissions as well."""
        return self.put_topic(name, read_queues=queues, write_queues=queues)
