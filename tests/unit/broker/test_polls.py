"""Long polls: when they look, and when they answer."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from mocketmq.broker.consuming.polls import Polls
from mocketmq.store.queue import Queue
from tests.support.patience import PATIENCE_S

QUEUE = Queue(1, "orders", 0)
LONG_S = 60.0


class Looking:
    """Counts looks, and finds what ``found`` holds."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.looks = 0
        self.looked = asyncio.Event()

    async def __call__(self) -> list[str]:
        """Count a look, and return a copy of ``found``."""
        self.looks += 1
        self.looked.set()
        return list(self.found)

    async def again(self) -> None:
        """Wait until the poll has looked once more."""
        self.looked.clear()
        async with asyncio.timeout(PATIENCE_S):
            await self.looked.wait()


async def test_existing_messages_are_found_without_waiting() -> None:
    look = Looking()
    look.found = ["first"]
    polls = Polls()
    assert await polls.wait_for(look, ["orders"], LONG_S) == ["first"]
    assert (look.looks, polls.count) == (1, 0)


async def test_poll_looks_again_at_each_arrival_until_satisfied() -> None:
    look, polls = Looking(), Polls()
    waiting = asyncio.create_task(
        polls.wait_for(look, [QUEUE], LONG_S, is_enough=lambda found: len(found) == 2)
    )
    await look.again()
    assert polls.count == 1
    look.found = ["first"]
    polls.arrived(QUEUE)
    await look.again()
    look.found = ["first", "second"]
    polls.arrived(QUEUE)
    assert await waiting == ["first", "second"]
    assert (look.looks, polls.count) == (3, 0)


async def test_the_request_that_has_waited_longest_looks_first() -> None:
    polls, many = Polls(), 50
    looked, all_wait = list[int](), asyncio.Event()

    async def look(number: int) -> bool:
        looked.append(number)
        if len(looked) == many:
            all_wait.set()
        return len(looked) > many

    async with asyncio.TaskGroup() as waiting:
        for number in range(many):
            waiting.create_task(polls.wait_for(partial(look, number), [QUEUE], LONG_S))
        await all_wait.wait()
        polls.arrived(QUEUE)
    assert looked == [*range(many), *range(many)]


async def test_poll_without_a_wait_looks_once() -> None:
    look = Looking()
    assert await Polls().wait_for(look, ["orders"], 0.0) == []
    assert look.looks == 1


async def test_a_stopping_broker_answers_with_the_messages_it_has() -> None:
    look, polls = Looking(), Polls()
    waiting = asyncio.create_task(polls.wait_for(look, ["orders"], LONG_S))
    await look.again()
    polls.close()
    assert await waiting == []
    assert await polls.wait_for(look, ["orders"], LONG_S) == []


async def test_other_events_wake_the_poll() -> None:
    look, polls = Looking(), Polls()
    events: list[asyncio.Event] = []

    @contextmanager
    def keep(event: asyncio.Event) -> Iterator[None]:
        events.append(event)
        yield
        events.remove(event)

    waiting = asyncio.create_task(polls.wait_for(look, ["orders"], LONG_S, also=keep))
    await look.again()
    look.found = ["freed"]
    events[0].set()
    assert await waiting == ["freed"]
    assert events == []
