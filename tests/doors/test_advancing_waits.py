"""Waits that advance a manual clock through the retries of real consumers to a dead letter."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from tests.doors.test_failing_consumers import Consumers, running_consumers
from tests.support.brokers import GROUP, TOPIC
from tests.support.command_line import Shell

LONG_MS = 30_000
DEAD = {"dead": 1, "group": GROUP, "timeout_ms": LONG_MS}


@asynccontextmanager
async def consuming(consume: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run a consumer that receives repeatedly."""

    async def repeat() -> None:
        while True:
            await consume()

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Failing:
    """A consumer that always fails or hangs, and counts its attempts."""

    def __init__(self, consumers: Consumers) -> None:
        self.attempts: list[int] = []
        self._consumers = consumers

    async def by_http(self) -> None:
        for message in await self._receive():
            self.attempts.append(message["reconsume_times"] + 1)
            await self._consumers.api.ok(
                "POST", f"/v1/groups/{GROUP}/give-back", {"receipts": [message["receipt"]]}
            )

    async def by_grpc(self) -> None:
        for message in await self._consumers.grpc.receive(GROUP, TOPIC, wait_s=5):
            self.attempts.append(message.system_properties.delivery_attempt)
            await self._consumers.grpc.change(message, 10, GROUP, TOPIC)

    async def hanging(self) -> None:
        for message in await self._receive():
            self.attempts.append(message["times"])

    async def _receive(self) -> list[Any]:
        return await self._consumers.api.receive(TOPIC, GROUP, wait_ms=5_000, invisible_ms=30_000)


async def wait(consumers: Consumers, **what: Any) -> Any:
    return await consumers.api.ok("POST", f"/v1/topics/{TOPIC}/wait", what)


@pytest.mark.parametrize(
    ("by", "pause_ms", "moves", "moved_ms"),
    [("by_http", LONG_MS, 2, 40_000), ("by_grpc", LONG_MS, 3, 30_000), ("hanging", 200, 3, 90_000)],
)
async def test_a_message_that_always_fails_gets_to_its_dead_letter(
    by: str, pause_ms: int, moves: int, moved_ms: int
) -> None:
    """Only the pauses of a hanging consumer end; a slow one would otherwise count as hanging."""
    async with running_consumers() as consumers:
        await consumers.api.ok("PUT", f"/v1/groups/{GROUP}", {"max_retries": 2})
        failing = Failing(consumers)
        async with consuming(getattr(failing, by)):
            await consumers.api.send(TOPIC)
            found = await wait(consumers, **DEAD, advance="1d", pause_ms=pause_ms)
        assert (found["reached"], found["moves"], found["moved_ms"]) == (True, moves, moved_ms)
        assert failing.attempts == [1, 2, 3]


async def test_the_clock_is_moved_no_further_than_allowed() -> None:
    async with running_consumers() as consumers:
        failing = Failing(consumers)
        async with consuming(failing.by_http):
            await consumers.api.send(TOPIC)
            found = await wait(consumers, **DEAD, advance="39s", pause_ms=LONG_MS)
        assert (found["reached"], found["moves"], found["moved_ms"]) == (False, 1, 10_000)
        last = found["explanation"].splitlines()[-1]
        assert last == "the clock was moved by 10s in 1 step; the next step would exceed the 39s allowed"
        assert failing.attempts == [1, 2]


async def test_only_the_messages_of_the_wait_move_the_clock() -> None:
    async with running_consumers() as consumers:
        await consumers.api.send(TOPIC, tag="early", delay_level=1)
        await consumers.api.send(TOPIC, tag="wanted", delay_level=5)
        await consumers.api.send(TOPIC, tag="late", delay_level=16)
        found = await wait(consumers, delivered=1, tag="wanted", advance="1d", timeout_ms=LONG_MS)
        assert (found["reached"], found["moves"], found["moved_ms"]) == (True, 1, 60_000)
        seen = (await consumers.api.ok("POST", f"/v1/topics/{TOPIC}/sent"))["messages"]
        assert {one["tag"]: one["state"] for one in seen} == {
            "early": "delivered",
            "wanted": "delivered",
            "late": "pending",
        }
        found = await wait(consumers, delivered=1, tag="cancelled", advance="1d", timeout_ms=50)
        assert (found["reached"], found["moves"]) == (False, 0)
        assert found["explanation"].endswith("\nthe clock was not moved")


async def test_a_message_that_nobody_takes_moves_nothing() -> None:
    async with running_consumers() as consumers:
        await consumers.api.receive(TOPIC, GROUP)  # creates the group
        await consumers.api.send(TOPIC)
        found = await wait(consumers, dead=1, advance="1d", timeout_ms=50, pause_ms=0)
        assert (found["reached"], found["moves"]) == (False, 0)
        assert f"not taken at {GROUP}" in found["explanation"]


async def test_a_reset_ends_a_wait_that_moves_the_clock() -> None:
    async with running_consumers() as consumers:
        waiter = asyncio.create_task(wait(consumers, delivered=1, advance="1d", timeout_ms=LONG_MS))
        polls = consumers.doors.broker.polls
        while not polls.count:  # noqa: ASYNC110 - of the broker in this loop
            await asyncio.sleep(0)
        await consumers.api.ok("POST", "/v1/reset")
        assert not (await waiter)["reached"]


async def test_the_command_line_moves_the_clock_while_it_waits() -> None:
    async with running_consumers() as consumers:
        shell = Shell(consumers.api.emulator.url)
        await consumers.api.send(TOPIC, delay_level=5)
        waited = await shell("wait", TOPIC, "--advance", "1h")
        assert (waited.code, waited.stdout) == (
            0,
            f"topic {TOPIC} has received 1 of 1 messages; the clock was moved by 1m\n",
        )
        refused = await shell("wait", TOPIC, "--sent", "--advance", "1h")
        assert "--advance has no effect with --sent" in refused.stderr
