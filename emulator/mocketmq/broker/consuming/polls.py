"""Long polls: who waits for which topic or queue."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from mocketmq.store.queues import Queue


class Polls:
    """Wakes those who wait for a topic or a queue when something arrives there. Waiting consumes nothing."""

    def __init__(self) -> None:
        self._waiting: dict[str | Queue, set[asyncio.Event]] = {}
        self._closed = False

    @property
    def count(self) -> int:
        """How many wait."""
        return len(set().union(*self._waiting.values()))

    @contextmanager
    def listening(self, places: Iterable[str | Queue]) -> Iterator[asyncio.Event]:
        """An event that is set when something arrives in one of the topics or queues.

        Clear it before looking.
        """
        event = asyncio.Event()
        places = set(places)
        for place in places:
            self._waiting.setdefault(place, set()).add(event)
        if self._closed:
            event.set()
        try:
            yield event
        finally:
            for place in places:
                events = self._waiting[place]
                events.discard(event)
                if not events:
                    del self._waiting[place]

    def arrived(self, queue: Queue) -> None:
        """A message became visible in the queue."""
        self.wake(queue.topic)
        self.wake(queue)

    def wake(self, place: str | Queue) -> None:
        """Let everybody who waits for the topic or the queue look again."""
        for event in self._waiting.get(place, ()):
            event.set()

    @property
    def is_closed(self) -> bool:
        """Whether the broker is stopping: waits end at once, with what there is."""
        return self._closed

    def close(self) -> None:
        """Send everybody home."""
        self._closed = True
        for place in self._waiting:
            self.wake(place)


class Patience:
    """How much longer a caller waits, from ``wait_s`` real seconds on.

    Patience is the client's and so is measured in real time, whatever the emulated clock does.
    """

    def __init__(self, wait_s: float) -> None:
        self._until_loop_s = asyncio.get_running_loop().time() + wait_s

    async def wait(self, event: asyncio.Event) -> bool:
        """Wait for the event; False when patience has run out."""
        try:
            async with asyncio.timeout_at(self._until_loop_s):
                await event.wait()
        except TimeoutError:
            return False
        return True
