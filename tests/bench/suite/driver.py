"""What a test asks of its broker besides messages, which is all that differs between the two."""

import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Final

from mocketmq.testing.broker import Broker

SHORTEST_S: Final = 2
"""Delay in seconds that stands for any delay on a real RocketMQ; the client cuts due times to seconds."""
_GRACE_S: Final = 2.0
"""Real seconds after which a real RocketMQ counts as having delivered all that was due."""
_WAIT: Final = "30s"
_MOST: Final = "2d"


class Driver(ABC):
    """A broker whose gRPC clients connect to ``endpoint``."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    @abstractmethod
    def begin(self) -> None:
        """Prepare the broker for the next test."""

    @abstractmethod
    def passed_s(self) -> float:
        """Return by how many seconds the test has moved the clock."""

    @abstractmethod
    def delay_s(self, seconds: float) -> float:
        """Return the delay that the service should use for one of ``seconds``."""

    @abstractmethod
    def pass_time(self, seconds: float) -> None:
        """Let delays of ``seconds`` end, unless the service has to wait for their end itself."""

    @abstractmethod
    def pass_retries(self, topic: str, group: str, order: str, *, until: str) -> None:
        """Let the retries of a message pass until it is ``acknowledged`` or ``dead``."""

    @abstractmethod
    def pass_quietly(self, seconds: float) -> None:
        """Let delays of ``seconds`` end, and the service handle everything that comes meanwhile."""

    @abstractmethod
    def away(self) -> AbstractContextManager[None]:
        """Keep the broker from serving clients."""


class MovedDriver(Driver):
    """A mocketmq: each test begins with an empty broker, and moves its clock."""

    def __init__(self, endpoint: str, url: str) -> None:
        super().__init__(endpoint)
        self._broker = Broker(url)
        self._began = self._broker.clock.now()

    def begin(self) -> None:
        self._broker.reset_for_test(())
        self._began = self._broker.clock.now()

    def passed_s(self) -> float:
        return (self._broker.clock.now() - self._began).total_seconds()

    def delay_s(self, seconds: float) -> float:
        return seconds

    def pass_time(self, seconds: float) -> None:
        self._broker.clock.advance(timedelta(seconds=seconds))

    def pass_retries(self, topic: str, group: str, order: str, *, until: str) -> None:
        wait = self._broker.assert_dead if until == "dead" else self._broker.assert_acknowledged
        wait(topic, 1, group=group, key=order, wait=_WAIT, advance=_MOST)

    def pass_quietly(self, seconds: float) -> None:
        self.pass_time(seconds)
        assert self._broker.leaks(wait=_WAIT) == []

    @contextmanager
    def away(self) -> Iterator[None]:
        self._broker.faults.add("broker-away", name="outage")
        try:
            yield
        finally:
            self._broker.faults.remove("outage")


class WaitingDriver(Driver):
    """A real RocketMQ of these processes, which is stopped and continued for outages."""

    def __init__(self, endpoint: str, pids: Sequence[int]) -> None:
        super().__init__(endpoint)
        self._pids = pids

    def begin(self) -> None:
        pass

    def passed_s(self) -> float:
        return 0

    def delay_s(self, seconds: float) -> float:  # noqa: ARG002
        return SHORTEST_S

    def pass_time(self, seconds: float) -> None:
        pass

    def pass_retries(self, topic: str, group: str, order: str, *, until: str) -> None:
        pass

    def pass_quietly(self, seconds: float) -> None:  # noqa: ARG002
        time.sleep(SHORTEST_S + _GRACE_S)

    @contextmanager
    def away(self) -> Iterator[None]:
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._pids:
            os.kill(pid, number)
