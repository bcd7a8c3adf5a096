"""The broker of a test: the blocking client, and what tests want besides."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from mocketmq.client.answer import JsonObject
from mocketmq.client.blocking import BlockingClient
from mocketmq.testing.clock import Clock
from mocketmq.testing.process import BrokerProcess


class Broker(BlockingClient):
    """A broker with all operations of :class:`BlockingClient`; in ``process`` if it was started here."""

    clock: Clock  # called, it is the operation that it takes the place of

    def __init__(self, url: str, *, token: str | None = None, process: BrokerProcess | None = None) -> None:
        super().__init__(url, token)
        self.token = token
        self.process = process
        doors = self.info()["doors"]
        self.ports = [doors["http"]["port"]]
        if "namesrv" in doors and "broker" in doors:
            self.ports += [doors["namesrv"]["port"], doors["broker"]["port"]]
        self.clock = Clock(self)

    @property
    def http_url(self) -> str:
        """The address of the JSON API and of Aliyun's HTTP protocol."""
        return self.url

    @property
    def name_server(self) -> str:
        """``host:port`` of the name server, for RocketMQ's clients. The host is that of ``http_url``."""
        if len(self.ports) == 1:
            raise AttributeError(
                f"the broker at {self.url} has no name server: it was started with --no-remoting"
            )
        host = urlsplit(self.url).hostname
        return f"[{host}]:{self.ports[1]}" if ":" in str(host) else f"{host}:{self.ports[1]}"

    @property
    def has_died(self) -> bool:
        """Whether its process has ended by itself."""
        return self.process is not None and not self.process.is_running

    def begin(self, topics: Iterable[str]) -> None:
        """Begin a test: with the topics, and without anything that another test left."""
        self.reset()
        for topic in topics:
            self.create_topic(topic)

    def create_topic(self, name: str, *, queues: int = 4) -> JsonObject:
        """Create the topic, or change it. ``put_topic`` sets its permissions as well."""
        return self.put_topic(name, read_queues=queues, write_queues=queues)
