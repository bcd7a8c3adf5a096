"""Crash one of two brokers while an application works, and describe what the application saw.

The broker crashes twice. The first time, the application works on its messages: a consumer holds one, a
local transaction runs, and sends wait for their answers. The broker returns before its routes end. The second
time, it is down until the routes leave it out.
"""

import asyncio
import itertools
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, NamedTuple

from mocketmq import Client
from tests.clients.broker_crashes.clients import AVOIDING, CLIENTS, DEFAULTS, started
from tests.clients.broker_crashes.sends import (
    ORDERS,
    PAID,
    PAYING_GROUP,
    QUEUES,
    SENT,
    WITHIN_S,
    Sends,
    Way,
)
from tests.clients.remoting.driver import Driver
from tests.support.network import quiet_port
from tests.support.process import forked_broker

Rows = dict[str, list[str]]
"""Cells of a client's rows, by the settings of the row. The last cell, real time, differs between runs."""
Seen = dict[str, Rows]
"""Rows by the situation."""

A, B = "broker-a", "broker-b"
PARCELS, LETTERS = "parcels", "letters"
CONSUMING: Final = {"consuming": ("GID_parcels", PARCELS), "in order": ("GID_letters", LETTERS)}
"""The group and the topic, by the situation."""
COUNT: Final = 16
"""Number of sends while a broker is down: enough that some go to its queues, wherever the client begins."""
CHECKS: Final = 12
"""Number of check backs for which the play waits; the broker makes 15."""
PLAY_S: Final = 300.0
"""Time limit in real seconds for all situations."""
NOTHING: Final = ["has none", "–", "–"]
"""Cells of a client that lacks what the situation needs."""
AT_ONCE: Final = "at once"
AFTER_ROUTES: Final = "after 120 s"


class Unanswered(NamedTuple):
    """A send that the broker has stored and does not answer."""

    body: str
    sending: asyncio.Task[str]


class Play:
    """One application with a cluster of two brokers, whose clock is manual."""

    def __init__(self, client: str, driver: Driver, control: Client) -> None:
        self._client = CLIENTS[client]
        self._driver = driver
        self._control = control
        self._sends = Sends(self._client, driver)
        self._got: dict[str, list[str]] = {group: [] for group, _ in CONSUMING.values()}
        self._marks = itertools.count()

    async def all(self) -> Seen:
        """Return what the application saw, by situation."""
        for topic in (ORDERS, PAID):
            await self._control.put_topic(topic, read_queues=QUEUES, write_queues=QUEUES)
        for situation, (group, topic) in CONSUMING.items():
            await self._control.put_topic(topic, read_queues=1, write_queues=1)
            await self._control.put_group(group, fifo=situation == "in order")
        for situation in self._consumers():
            await self._consume(situation)
        await self._sends.until_all_work()  # clients are slow at first
        seen, outcomes = await self._crash_at_work()
        return seen | await self._crash_until_routes_end(outcomes)

    def _consumers(self) -> list[str]:
        return [each for each in CONSUMING if each == "consuming" or self._client.consumes_in_order]

    # The first crash

    async def _crash_at_work(self) -> tuple[Seen, Mapping[Way, Sequence[str]]]:
        """Return what was seen, and the outcomes of sends while the broker was down."""
        for situation in self._consumers():
            group, topic = CONSUMING[situation]
            for body in ("held", "next"):
                await self._control.send(topic, body, queue_id=1)
            await self._until(group, "held")
        half = await self._half_at_crashing_broker() if self._client.has_transactions else None
        unanswered = await self._unanswered()
        before = len(self._driver.problems)
        await self._control.crash_broker(B)
        crashed = time.monotonic()
        await self._driver.call("release", body="held")
        seen: Seen = {"storing": {}, "in transaction": {DEFAULTS: NOTHING}}
        for name, one in unanswered.items():
            sees = await one.sending
            elapsed = time.monotonic() - crashed
            times = len(await self._control.sent(ORDERS, body=one.body))
            seen["storing"][name] = [sees, _times(times), _real(elapsed)]
        await self._control.clear_faults()
        commits = await self._commit(half) if half else ""
        outcomes = {
            way: [await send(number) for number in range(COUNT)] for way, send in self._sends.ways().items()
        }
        for situation in self._consumers():
            group, topic = CONSUMING[situation]
            await self._control.send(topic, "other", queue_id=0)
            await self._until(group, "other")
        await self._control.start_broker(B)
        if half:
            seen["in transaction"][DEFAULTS] = ["it returns" if commits == SENT else commits]
            seen["in transaction"][DEFAULTS] += await self._checked_back(half.body)
        received = await asyncio.gather(*map(self._received, self._consumers()))
        errors = "errors" if len(self._driver.problems) > before else "no error"
        cells = dict(zip(self._consumers(), received, strict=True))
        for situation in CONSUMING:
            row = [errors, *cells[situation]] if situation in cells else NOTHING
            seen[situation] = {DEFAULTS: row}
        return seen, outcomes

    async def _unanswered(self) -> dict[str, Unanswered]:
        """Let sends wait for the answer of the broker that crashes, by their settings."""
        if self._client.is_grpc:
            return {}
        # A client that avoids brokers would avoid this one from now on.
        settings = {name: one for name, one in self._client.sends.items() if AVOIDING not in name}
        door = self._client.tried.door
        await self._control.add_fault("never", operation="send", topic=ORDERS, door=door, broker=B)

        async def at_crashing_broker(name: str) -> Unanswered:
            for number in itertools.count():
                body = f"{name} {number}"
                sending = asyncio.create_task(self._sends.plain(settings[name], body))
                while not sending.done():
                    stored = await self._control.sent(ORDERS, body=body)
                    if stored and _broker_of(stored[0]["queue_id"]) == B:
                        return Unanswered(body, sending)
            raise AssertionError

        return dict(zip(settings, await asyncio.gather(*map(at_crashing_broker, settings)), strict=True))

    async def _half_at_crashing_broker(self) -> Unanswered:
        """Begin a transaction at the broker that crashes; others that are begun on the way are committed."""
        for number in itertools.count():
            body = f"in transaction {number}"
            if self._client.is_grpc:
                sending = asyncio.create_task(self._sends.begin(body))
                assert await sending == SENT
            else:
                sending = asyncio.create_task(self._sends.in_transaction(body, held=body))
                while (await self._driver.next(PAYING_GROUP)).body != body:
                    pass
            halves = (await self._control.transactions(topic=PAID))["messages"]
            [queue] = [each["real_queue_id"] for each in halves if each["body"] == body]
            half = Unanswered(body, sending)
            if _broker_of(queue) == B:
                return half
            assert await self._commit(half) == SENT
        raise AssertionError

    async def _commit(self, half: Unanswered) -> str:
        if self._client.is_grpc:
            return await self._sends.commit()
        await self._driver.call("release", body=half.body)
        return await half.sending

    async def _checked_back(self, body: str) -> list[str]:
        """Return how the half message was committed, once its broker is back."""
        began = time.monotonic()
        for _ in range(CHECKS):
            await self._control.advance("1m")
            committed = await self._control.wait_delivered(PAID, body=body, wait="5s")
            if committed["reached"]:
                times = len(await self._control.sent(PAID, body=body))
                return [f"by a check back, {_times(times)}", _real(time.monotonic() - began)]
        return ["not", _real(None)]

    async def _received(self, situation: str) -> list[str]:
        """Return what a consumer has received of the crashed broker once it has a message sent after that."""
        group, topic = CONSUMING[situation]
        began = time.monotonic()
        await self._control.send(topic, "after", queue_id=1)
        try:
            async with asyncio.timeout(WITHIN_S):
                await self._until(group, "after", moves=self._client.is_grpc)
        except TimeoutError:
            return ["not", _real(None)]
        elapsed = time.monotonic() - began
        await self._control.advance("1m")  # the time for which a received message is invisible
        await self._mark(situation)
        got = [each for each in self._got[group] if each in ("held", "next", "after")]
        times = got.count("held")
        # Each move of the clock may overtake an acknowledgement.
        words = "more than once" if self._client.is_grpc and times > 1 else _times(times)
        if situation == "in order":
            is_in_order = list(dict.fromkeys(got)) == ["held", "next", "after"]
            words += ", in order" if is_in_order else f", not in order: {', '.join(got)}"
        return [words, _real(elapsed)]

    # The second crash

    async def _crash_until_routes_end(self, outcomes: Mapping[Way, Sequence[str]]) -> Seen:
        """Say when the sends work that failed while the broker was down before."""
        await self._control.crash_broker(B)
        await self._control.crash_broker(A)
        seen: Seen = {"no broker": {}, "sends": {}, "keyed sends": {}, "transactions": {DEFAULTS: NOTHING}}
        for name, settings in self._client.sends.items():
            # The first may wait for an answer on a connection whose end the client has not noticed yet.
            for _ in range(QUEUES * 2):
                await self._sends.plain(settings, "nowhere")
            began = time.monotonic()
            sees = await self._sends.plain(settings, "nowhere")
            seen["no broker"][name] = [sees, _real(time.monotonic() - began)]
        await self._control.start_broker(A)
        await self._control.advance("2m")
        elapsed = await self._sends.until_all_work()
        for way, ends in outcomes.items():
            words, works = _judged(ends, is_avoiding=AVOIDING in way.settings)
            real = _real(elapsed[way]) if works == AFTER_ROUTES else AT_ONCE
            seen[way.situation][way.settings] = [words, works, real]
        return seen

    # Consumers

    async def _consume(self, situation: str) -> None:
        group, topic = CONSUMING[situation]
        orderly = {"orderly": True} if situation == "in order" and not self._client.is_grpc else {}
        await self._driver.call("consume", group=group, topic=topic, holding="held", **orderly)
        await self._mark(situation)

    async def _mark(self, situation: str) -> None:
        """Send a message to each broker, and wait until the consumer has both."""
        group, topic = CONSUMING[situation]
        marks = [f"mark {next(self._marks)}" for _ in (A, B)]
        for queue, mark in enumerate(marks):
            await self._control.send(topic, mark, queue_id=queue)
        for mark in marks:
            await self._until(group, mark)

    async def _until(self, group: str, body: str, *, moves: bool = False) -> None:
        """Wait for a message. ``moves`` makes messages visible again that were not acknowledged."""
        got = self._got[group]
        while body not in got:
            try:
                async with asyncio.timeout(1 if moves else None):
                    got.append((await self._driver.next(group)).body)
            except TimeoutError:
                await self._control.advance("1m")


def _judged(outcomes: Sequence[str], *, is_avoiding: bool) -> tuple[str, str]:
    """Return what an application sees of these sends, and when they work.

    A client that avoids slow brokers may avoid the broker even before it crashes.
    """
    failed = [each for each in outcomes if each != SENT]
    errors = ", ".join(sorted(set(failed)))
    if is_avoiding and len(failed) <= 1:
        return "one fails at most", AT_ONCE
    if not failed:
        return "all are sent", AT_ONCE
    return f"{'all' if len(failed) == len(outcomes) else 'some'} fail: {errors}", AFTER_ROUTES


def _broker_of(queue_id: int) -> str:
    """Return the broker of a queue, as the JSON API numbers queues."""
    return (A, B)[queue_id % 2]


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _real(elapsed_s: float | None) -> str:
    if elapsed_s is None:
        return f"not within {WITHIN_S:.0f} s"
    return AT_ONCE if elapsed_s < 1 else f"in {elapsed_s:.0f} s"


async def seen_by(client: str, home: Path) -> Seen:
    """Return what an application of this client sees, by situation."""
    flags = ("--clock", "manual", "--brokers", "2", "--broker-port", str(quiet_port(-2, 8, 10)))
    async with (
        asyncio.timeout(PLAY_S),
        forked_broker(*flags) as process,
        Client(process.url) as control,
        AsyncExitStack() as stack,
    ):
        driver = await started(stack, client, process, home)
        return await Play(client, driver, control).all()
