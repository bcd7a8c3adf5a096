"""Expectations of tests, checked with both Python clients against a real broker process."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mocketmq import BlockingClient, BrokerError, Client, InvalidArgumentError
from tests.support.process import BrokerProcess, forked_broker


@pytest.fixture
async def process() -> AsyncIterator[BrokerProcess]:
    async with forked_broker("--clock", "manual") as process:
        yield process


class Asynchronous:
    """Calls operations of the asyncio client."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __call__(self, operation: str, *args: Any, **options: Any) -> Any:
        async with Client(self._url) as client:
            return await getattr(client, operation)(*args, **options)


class Blocking:
    """Calls operations of the blocking client, each in a thread."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __call__(self, operation: str, *args: Any, **options: Any) -> Any:
        def run() -> Any:
            with BlockingClient(self._url) as client:
                return getattr(client, operation)(*args, **options)

        return await asyncio.to_thread(run)


Call = Asynchronous | Blocking


@pytest.fixture(params=[Asynchronous, Blocking])
def call(request: pytest.FixtureRequest, process: BrokerProcess) -> Call:
    made: Call = request.param(process.url)
    return made


async def test_passing_assertions_return_the_messages(call: Call) -> None:
    await call("send", "orders", '{"id": 7}', tag="paid", keys=["7"], properties={"region": "eu"})
    await call("send", "orders", b"\xff", delay_level=16)
    like = {
        "tag": "paid",
        "key": "7",
        "properties": {"region": "eu"},
        "json_path": {"$.id": 7},
        "delayed": False,
    }
    (found,) = await call("sent", "orders", **like)
    assert await call("assert_sent", "orders", 1, **like) == [found]
    assert await call("assert_sent", "orders", body={"id": 7}) == [found]
    (late,) = await call("assert_sent", "orders", body=b"\xff", delay_level=16)
    assert (late["state"], late["body_base64"]) == ("pending", "/w==")
    assert await call("assert_sent", "refunds", 0) == []
    await call("advance", "30m")
    assert len(await call("assert_delivered", "orders", 2)) == 2
    messages = await call("receive", "orders", group="billing", max_messages=2)
    messages.sort(key=lambda one: one["message_id"] == late["message_id"])
    await call("acknowledge", "billing", messages[:1])
    assert await call("sent", "orders", tag="paid") == await call(
        "assert_acknowledged", "orders", group="billing"
    )
    await call("give_back", "billing", messages[1:], -1)
    assert (await call("wait_dead", "orders", group="billing"))["dead"] == 1
    assert [one["message_id"] for one in await call("assert_dead", "orders", 1)] == [late["message_id"]]
    assert (await call("wait_acknowledged", "orders", group="billing"))["reached"]
    await call("assert_nothing_else")


async def test_a_wait_moves_the_clock(call: Call) -> None:
    await call("send", "orders", "a", delay_level=5)
    moved = await call("wait_delivered", "orders", advance="1h", pause="10ms")
    assert (moved["reached"], moved["moves"], moved["moved_ms"]) == (True, 1, 60_000)
    await call("send", "orders", "b", delay_level=5)
    assert len(await call("assert_delivered", "orders", 2, advance="1h")) == 2
    with pytest.raises(AssertionError, match="the clock was not moved"):
        await call("assert_dead", "orders", advance="1h", wait="0")


async def test_failed_assertions_show_near_misses(call: Call) -> None:
    await call("send", "orders", "a", tag="paid")
    with pytest.raises(AssertionError, match="tag: 'paid', not 'refunded'"):
        await call("assert_sent", "orders", wait="0", tag="refunded")
    with pytest.raises(AssertionError, match="orders: 1 sent, wanted exactly 0"):
        await call("assert_sent", "orders", 0)
    with pytest.raises(AssertionError, match="1 delivered, wanted exactly 2"):
        await call("assert_delivered", "orders", 2, wait="1ms")
    with pytest.raises(AssertionError, match="not taken at billing"):
        await call("assert_acknowledged", "orders", group="billing", wait="0")
    with pytest.raises(AssertionError, match="orders: 0 dead at billing, wanted at least 1"):
        await call("assert_dead", "orders", group="billing", wait="0")
    with pytest.raises(AssertionError, match="expected by no assertion: 1\n  orders tag paid 'a'"):
        await call("assert_nothing_else", "orders")
    await call("assert_nothing_else", "refunds")
    assert (await call("wait_delivered", "orders", 2, wait="0"))["reached"] is False
    with pytest.raises(InvalidArgumentError, match="wait"):
        await call("wait_sent", "orders", wait="soon")


async def test_failed_assertion_shows_story_and_leaks(call: Call) -> None:
    await call("send", "orders", "a")
    messages = await call("receive", "orders", group="billing")
    (leak,) = await call("leaks", "billing")
    assert (leak["group"], leak["state"], leak["message"]["body"]) == ("billing", "in flight", "a")
    with pytest.raises(BrokerError, match="audit"):
        await call("leaks", "audit", wait="0")
    await call("acknowledge", "billing", messages)
    assert await call("leaks", wait="5s") == []
    assert [one["kind"] for one in await call("events")] == ["sent", "taken", "acknowledged"]
    assert [one["kind"] for one in await call("events", max_events=1)] == ["acknowledged"]


async def test_a_reset_sets_the_clock_back(call: Call) -> None:
    start_ms = (await call("clock"))["now_ms"]
    await call("advance", "1d")
    assert (await call("reset", clock="start"))["now_ms"] == start_ms
    assert (await call("reset", clock=start_ms + 7))["now_ms"] == start_ms + 7
    assert (await call("reset"))["now_ms"] == start_ms + 7


async def test_a_wait_ends_with_the_event(process: BrokerProcess) -> None:
    async with Client(process.url) as broker:
        waiter = asyncio.create_task(broker.wait_sent("orders", 2, wait="30s", tag="paid"))
        for tag in ("paid", "other", "paid"):
            assert not waiter.done()
            await broker.send("orders", "x", tag=tag)
        assert (await waiter)["sent"] == 2
