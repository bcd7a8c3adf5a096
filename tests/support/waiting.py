"""Waits for a gauge of a broker, and notifies tests when a receiver begins and stops waiting."""

import asyncio
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import aiohttp
import pytest

from mocketmq.broker.consuming.polls import Polls
from mocketmq.store.queue import Queue
from tests.support.patience import HANGING_S


async def metric_reaches(url: str, name: str, wanted: int) -> None:
    """Wait until the metric of the broker at this URL has the value."""
    async with asyncio.timeout(HANGING_S), aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"{url}/metrics") as answer:
                found = re.search(rf"^{name} (\S+)$", await answer.text(), re.MULTILINE)
            assert found, f"the broker has no metric {name}"
            if float(found[1]) == wanted:
                return


class Waiting:
    """Events that are set when a receiver begins to wait, and when it stops."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()

    @classmethod
    def of(cls, polls: Polls, monkeypatch: pytest.MonkeyPatch) -> "Waiting":
        """Track the long polls of a broker."""
        waiting, listening = cls(), polls.listening

        @contextmanager
        def followed(places: Iterable[str | Queue]) -> Iterator[asyncio.Event]:
            try:
                with listening(places) as arrival:
                    waiting.begun.set()
                    yield arrival
            finally:
                waiting.ended.set()

        monkeypatch.setattr(polls, "listening", followed)
        return waiting
