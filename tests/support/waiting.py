"""Tells tests when a receiver waits, so that they need not guess."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

from mocketmq.broker.consuming.polls import Polls
from mocketmq.store.queue import Queue


class Waiting:
    """When a receiver has begun to wait, and when it has stopped."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()

    @classmethod
    def of(cls, polls: Polls, monkeypatch: pytest.MonkeyPatch) -> "Waiting":
        """Follow the long polls of a broker."""
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
