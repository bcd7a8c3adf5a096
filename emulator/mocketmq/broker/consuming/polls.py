"""Long polls: wakes waiting requests when a message arrives in their topic or queue."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar
from weakref import WeakSet

from mocketmq.store.queue import LiteQueue, Queue

T = TypeVar("T")

ANYTHING = ""
"""The source for long polls on any change of the store or of a group's offsets."""


def _ignore(_queue: LiteQueue) -> None:
    """Ignore a lite topic that nobody can subscribe to yet."""


def _nothing_more(_event: asyncio.Event) -> AbstractContextManager[None]:
    return nullcontext()


class Polls:
    """Wakes long polls when a message arrives in their topic or queue, or after any change of the store.

    For a message in a lite topic, ``on_lite`` is called instead, because only the subscribers need to look.
    """

    def __init__(self) -> None:
        # A dict keeps its order, so the request that has waited longest looks first.
        self._waiting: dict[str | Queue, dict[asyncio.Event, None]] = {}
        self._held: WeakSet[asyncio.Task[object]] = WeakSet()
        self.on_lite: Callable[[LiteQueue], None] = _ignore
        self._closed = False
        self.endings = 0  # number of times that a reset, or the broker's stop, has ended all long polls

    @property
    def count(self) -> int:
        """The number of waiting long polls."""
        return len(set().union(*self._waiting.values()))

    @property
    def has_held(self) -> bool:
        """Whether the current task has waited in a long poll."""
        return asyncio.current_task() in self._held

    async def wait_for(
        self,
        look: Callable[[], Awaitable[T]],
        sources: Iterable[str | Queue],
        wait_s: float,
        *,
        is_enough: Callable[[T], bool] = bool,
        also: Callable[[asyncio.Event], AbstractContextManager[None]] = _nothing_more,
    ) -> T:
        """Call ``look`` until it finds enough or ``wait_s`` is over. Returns its last result.

        ``look`` is called at once, and again when a message arrives in one of the sources, or when ``also``
        sets its event. ``wait_s`` is in real seconds, because the client waits in real time, whatever the
        emulated clock does. All long polls end when the broker stops or is reset.
        """
        ended = self.endings
        until_loop_s = asyncio.get_running_loop().time() + wait_s
        with self.listening(sources) as arrival, also(arrival):
            while True:
                arrival.clear()
                found = await look()
                is_over = self._closed or self.endings != ended
                if is_enough(found) or is_over or not await self._is_set(arrival, until_loop_s):
                    return found

    async def _is_set(self, event: asyncio.Event, until_loop_s: float) -> bool:
        """Wait for the event. Returns False when the time is up."""
        if asyncio.get_running_loop().time() >= until_loop_s:
            return event.is_set()
        task = asyncio.current_task()
        if task is not None:
            self._held.add(task)
        try:
            async with asyncio.timeout_at(until_loop_s):
                await event.wait()
        except TimeoutError:
            return False
        return True

    @contextmanager
    def listening(self, sources: Iterable[str | Queue]) -> Iterator[asyncio.Event]:
        """Yield an event that is set when a message arrives in one of the topics or queues."""
        event = asyncio.Event()
        sources = set(sources)
        for source in sources:
            self._waiting.setdefault(source, {})[event] = None
        if self._closed:
            event.set()
        try:
            yield event
        finally:
            for source in sources:
                events = self._waiting[source]
                del events[event]
                if not events:
                    del self._waiting[source]

    def arrived(self, queue: Queue) -> None:
        """Wake long polls after a message became visible in the queue."""
        if isinstance(queue, LiteQueue):
            self.on_lite(queue)
        else:
            self.wake(queue.topic)
            self.wake(queue)

    def freed(self, queue: Queue) -> None:
        """Wake long polls after a message of the queue became visible to a group again."""
        if isinstance(queue, LiteQueue):
            self.on_lite(queue)
        else:
            self.wake(queue.topic)

    def changed(self) -> None:
        """Wake the long polls that wait for any change, after a commit or a change of a group's offset."""
        if ANYTHING in self._waiting:
            self.wake(ANYTHING)

    def wake(self, source: str | Queue) -> None:
        """Make the long polls of the topic or queue look again."""
        for event in self._waiting.get(source, ()):
            event.set()

    def close(self) -> None:
        """End all long polls, and refuse new ones."""
        self._closed = True
        self.end()

    def end(self) -> None:
        """End all long polls, each with its current result."""
        self.endings += 1
        for source in self._waiting:
            self.wake(source)
