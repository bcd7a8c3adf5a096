"""The broker object for tests: the blocking client plus addresses, clock, faults and resets."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Literal
from urllib.parse import urlsplit

from mocketmq.client.blocking import BlockingClient
from mocketmq.testing.clock import BlockingClock
from mocketmq.testing.faults import BlockingFaults
from mocketmq.testing.process import BrokerProcess

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""


class Broker(BlockingClient):
    """A broker with all operations of :class:`BlockingClient`; ``process`` is None if it runs elsewhere."""

    # Callable, so ``broker.clock()`` still works although the attribute shadows the method.
    clock: BlockingClock
    faults: BlockingFaults

    def __init__(self, url: str, *, token: str | None = None, process: BrokerProcess | None = None) -> None:
        super().__init__(url, token)
        self.token = token
        self.login = url, token  # for other clients of the broker; the URL may have a user's password
        self.process = process
        self.doors = self.info()["doors"]
        self.clock = BlockingClock(self)
        self.faults = BlockingFaults(self)

    @property
    def http_url(self) -> str:
        """The URL of the JSON API and of Aliyun's HTTP protocol."""
        return self.url

    @property
    def name_server(self) -> str:
        """``host:port`` of the name server, for RocketMQ's clients; several are separated by semicolons."""
        first = self._address("namesrv")
        host = first.rpartition(":")[0]
        others = [f"{host}:{door['port']}" for door in self.doors.get("name_servers", [])[1:]]
        return ";".join((first, *others))

    @property
    def grpc_endpoint(self) -> str:
        """``host:port`` for the gRPC clients of RocketMQ 5."""
        return self._address("grpc")

    def _address(self, door: Literal["namesrv", "grpc"]) -> str:
        """Combine the host of ``url``, which reached the broker, with a port."""
        if door not in self.doors:
            raise AttributeError(
                f"the broker at {self.url} does not listen for {door}; it listens for {self.doors}"
            )
        host = str(urlsplit(self.url).hostname)
        return f"{f'[{host}]' if ':' in host else host}:{self.doors[door]['port']}"

    @property
    def has_died(self) -> bool:
        """Whether the broker's process has ended unexpectedly."""
        return self.process is not None and not self.process.is_running

    def reset_for_test(
        self,
        topics: Iterable[str],
        seeds: Iterable[PathLike[str]] = (),
        *,
        forget: bool = False,
        snapshot: str | None = None,
    ) -> None:
        """Reset the broker for a test, or restore a snapshot; create missing topics, and store its seeds.

        This removes messages, faults and clock moves of earlier tests. With ``forget`` or a snapshot it also
        removes their topics and groups.
        """
        if snapshot:
            self.restore_snapshot(snapshot)
        else:
            self.reset(clock="start", forget=forget)
        for topic in topics:
            self.create_topic(topic)
        for seed in seeds:
            self.seed(seed)
