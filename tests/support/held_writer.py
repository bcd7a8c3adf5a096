"""Holds up a broker's writer, so that requests stay in progress."""

from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.store.wal_syncs import Waiter
from mocketmq.store.writer import Work


class HeldWriter:
    """Holds up work for the writer until the test releases it."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held: list[tuple[Work, Waiter]] = []
        self._writer = broker.store.writer
        self._put = self._writer.put
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(self._writer, "put", self._hold)

    def _hold(self, work: Work, waiter: Waiter, **_more: Any) -> None:
        self.held.append((work, waiter))

    @property
    def requests(self) -> int:
        """The number of requests, of which several sends of a read are one piece of work."""
        return sum(len(getattr(work, "accepted", [work])) for work, _ in self.held)

    def hold_no_more(self) -> None:
        """Pass further work on to the writer, and only keep what is held."""
        self._monkeypatch.setattr(self._writer, "put", self._put)

    def let_go(self) -> None:
        """Pass the work on to the writer, and hold up nothing more."""
        self.hold_no_more()
        for work, waiter in self.held:
            self._put(work, waiter)
