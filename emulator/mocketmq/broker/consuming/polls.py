"""Long polls: wait in a topic or a queue until there is what a client asks for, or its time is up."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

from mocketmq.store.queue import Queue

T = TypeVar("T")

ANYTHING = ""
"""The source of long polls that wait for any change: of the store, or of a group's offsets."""


def _nothing_more(_event: asyncio.Event) -> AbstractContextManager[None]:
    return nullcontext()


class Polls:
    """Wakes long polls when a message arrives in their topic or queue."""

    def __init__(self) -> None:
        self._waiting: dict[str | Queue, set[asyncio.Event]] = {}
        self._closed = False
        self._ended = 0  # how often all were ended

    @property
    def count(self) -> int:
        """How many long polls wait."""
        return len(set().union(*self._waiting.values()))

    async def wait_for(
        self,
        look: Callable[[], Awaitable[T]],
        sources: Iterable[str | Queue],
        wait_s: float,
        *,
        is_enough: Callable[[T], bool] = bool,
        also: Callable[[asyncio.Event], AbstractContextManager[None]] = _nothing_more,
    ) -> T:
        """Call ``look`` until it finds enough or ``wait_s`` is over; returns what it found last.

        It is called at once, and again when a message arrives in one of the topics or queues, or when
        ``also`` sets the event that it was given. The seconds are real ones, whatever the emulated clock
        does: they are the client's. When the broker stops or is emptied, all long polls end.
        """
        ended = self._ended
        until_loop_s = asyncio.get_running_loop().time() + wait_s
        with self.listening(sources) as arrival, also(arrival):
            while True:
                arrival.clear()
                found = await look()
                is_over = self._closed or self._ended != ended
                if is_enough(found) or is_over or not await _is_set(arrival, until_loop_s):
                    return found

    @contextmanager
    def listening(self, sources: Iterable[str | Queue]) -> Iterator[asyncio.Event]:
        """An event that is set when a message arrives in one of the topics or queues."""
        event = asyncio.Event()
        sources = set(sources)
        for source in sources:
            self._waiting.setdefault(source, set()).add(event)
        if self._closed:
            event.set()
        try:
            yield event
        finally:
            for source in sources:
                events = self._waiting[source]
                events.discard(event)
                if not events:
                    del self._waiting[source]

    def arrived(self, queue: Queue) -> None:
        """A message became visible in the queue."""
        self.wake(queue.topic)
        self.wake(queue)

    def changed(self) -> None:
        """Something was stored, or a group's offset moved."""
        if ANYTHING in self._waiting:
            self.wake(ANYTHING)

    def wake(self, source: str | Queue) -> None:
        """Let the long polls of the topic or queue look again."""
        for event in self._waiting.get(source, ()):
            event.set()

    def close(self) -> None:
        """End all long polls, and let none begin."""
        self._closed = True
        self.end()

    def end(self) -> None:
        """End all long polls, each with what it finds now."""
        self._ended += 1
        for source in self._waiting:
            self.wake(source)


async def _is_set(event: asyncio.Event, until_loop_s: float) -> bool:
    """Wait for the event; False when the time is up."""
    try:
        async with asyncio.timeout_at(until_loop_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
