"""Long polls: wait in a topic or a queue until there is what a client asks for, or its time is up."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

from mocketmq.store.queues import Queue

T = TypeVar("T")


def _nothing_more(_event: asyncio.Event) -> AbstractContextManager[None]:
    return nullcontext()


class Polls:
    """Wakes those who wait for a topic or a queue when something arrives there. Waiting consumes nothing."""

    def __init__(self) -> None:
        self._waiting: dict[str | Queue, set[asyncio.Event]] = {}
        self._closed = False

    @property
    def count(self) -> int:
        """How many wait."""
        return len(set().union(*self._waiting.values()))

    async def wait_for(
        self,
        look: Callable[[], Awaitable[T]],
        places: Iterable[str | Queue],
        wait_s: float,
        *,
        is_enough: Callable[[T], bool] = bool,
        also: Callable[[asyncio.Event], AbstractContextManager[None]] = _nothing_more,
    ) -> T:
        """What ``look`` finds, as soon as that is enough; after ``wait_s`` seconds whatever it found last.

        It looks at once, and again whenever something arrives in one of the topics or queues, or ``also``
        sets the event that it was given. How long a client waits is its own affair, so the seconds are real
        ones, whatever the emulated clock does. A broker that stops answers at once.
        """
        until_loop_s = asyncio.get_running_loop().time() + wait_s
        with self.listening(places) as arrival, also(arrival):
            while True:
                arrival.clear()
                found = await look()
                if is_enough(found) or self._closed or not await _is_set(arrival, until_loop_s):
                    return found

    @contextmanager
    def listening(self, places: Iterable[str | Queue]) -> Iterator[asyncio.Event]:
        """An event that is set when something arrives in one of the topics or queues."""
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

    def close(self) -> None:
        """The broker stops: end all waits with what there is."""
        self._closed = True
        for place in self._waiting:
            self.wake(place)


async def _is_set(event: asyncio.Event, until_loop_s: float) -> bool:
    """Wait for the event; False when the time is up."""
    try:
        async with asyncio.timeout_at(until_loop_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
