"""The cost of the console: the broker's CPU for an open page, the page's memory, and how fast views open."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

import psutil
from aiohttp import ClientSession

from tests.bench.figures import Figure, at_most
from tests.bench.progress import rounds
from tests.support.browser import console_page, running_browser
from tests.support.process import broker_process

if TYPE_CHECKING:
    from playwright.async_api import Browser

PENDING = 100_000
RATE = 1_000
TOPICS = 5_000
_VIEWS = ("topics", "messages")
_BATCH = 50
_CALM = 2.0
"""Share of a core that an idle broker takes, in percent."""
_CALM_S = 5
_SLOWEST_FRAMES = """seconds => new Promise(done => {
    const gaps = [], began = performance.now();
    let last = began;
    requestAnimationFrame(function frame(now) {
        gaps.push(now - last);
        last = now;
        if (now - began < seconds * 1000) requestAnimationFrame(frame);
        else done(gaps.sort((a, b) => a - b)[Math.floor(gaps.length * 0.99)]);
    });
})"""
"""Limit on the 99th percentile of the milliseconds between two frames."""
_DELAYED: dict[str, Any] = {"body": "order 4712 was not paid", "delay_level": 18, "keys": ["4712"]}
_SENT: dict[str, Any] = {"body": "order 4712 was not paid", "delay_level": 1, "keys": ["4712"]}


async def measure(quick: bool) -> list[Figure]:
    """Measure the broker's CPU for one page as a share of a core, the page's frames, and its later heap."""
    seconds, count, age_s = (3.0, 1, 10.0) if quick else (20.0, 3, 600.0)
    shares: dict[str, list[float]] = {"idle": [], "busy": []}
    frames: dict[str, list[float]] = {"idle": [], "busy": []}
    begun: list[float] = []
    grown: list[float] = []
    opened: dict[str, list[float]] = {view: [] for view in _VIEWS}
    async with (
        broker_process("--data", ":memory:") as broker,
        running_browser() as browser,
        ClientSession(broker.url) as client,
    ):
        for _ in range(PENDING // 1_000):
            await _batch(client, [_DELAYED] * 1_000)
        process = psutil.Process(broker.pid)
        while max([await _share(process, 1) for _ in range(_CALM_S)]) > _CALM:
            pass  # the broker indexes the keys of sent messages in the background
        for _ in rounds("console", count):
            for name, rate in (("idle", 0), ("busy", RATE)):
                async with _sending(client, rate):
                    without = await _share(process, seconds)
                    async with _open(browser, broker.url) as page:
                        shares[name].append(await _share(process, seconds) - without)
                        frames[name].append(await page.evaluate(_SLOWEST_FRAMES, seconds))
        async with _sending(client, RATE), _open(browser, broker.url) as page:
            await asyncio.sleep(min(age_s / 10, 30))
            begun.append(await _heap_mb(page))
            await asyncio.sleep(age_s)
            grown.append(await _heap_mb(page))
        await _make_topics(client)
        for view in _VIEWS * count:
            async with console_page(browser, broker.url, view) as page:
                await page.wait_for_selector("tbody tr")
                opened[view].append(await page.evaluate("performance.now()"))
    return [
        Figure(
            "broker's CPU for an open page, 100,000 pending, idle",
            "% of a core",
            shares["idle"],
            aim=at_most(5),
        ),
        Figure(
            "broker's CPU for an open page at 1,000 a second", "% of a core", shares["busy"], aim=at_most(5)
        ),
        Figure(
            "p99 between two frames of that page (floor: idle)",
            "ms",
            frames["busy"],
            frames["idle"],
            at_most(50),
        ),
        Figure("page's heap after 10 minutes of that (floor: after 30 s)", "MB", grown, begun, at_most(30)),
        *(
            Figure(f"{view} shown, of a broker with 5,000 topics", "ms", opened[view], aim=at_most(1_000))
            for view in _VIEWS
        ),
    ]


async def _batch(client: ClientSession, messages: list[dict[str, Any]]) -> None:
    async with client.post("/v1/topics/orders/messages/batch", json={"messages": messages}) as answer:
        answer.raise_for_status()


async def _make_topics(client: ClientSession) -> None:
    async def make(number: int) -> None:
        async with client.put(f"/v1/topics/team-{number % 97}-orders-{number}") as answer:
            answer.raise_for_status()

    for first in range(0, TOPICS, 100):
        await asyncio.gather(*map(make, range(first, first + 100)))


@asynccontextmanager
async def _sending(client: ClientSession, rate: int) -> AsyncIterator[None]:
    """Send this many messages a second during the context."""

    async def send() -> None:
        began = perf_counter()
        sent = 0
        while rate:
            await _batch(client, [_SENT] * _BATCH)
            sent += _BATCH
            await asyncio.sleep(max(began + sent / rate - perf_counter(), 0))

    task = asyncio.create_task(send())
    try:
        await asyncio.sleep(1)
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _share(process: psutil.Process, seconds: float) -> float:
    """Return the CPU time of the process as a percentage of this time."""
    before, began = sum(process.cpu_times()[:2]), perf_counter()
    await asyncio.sleep(seconds)
    return (sum(process.cpu_times()[:2]) - before) / (perf_counter() - began) * 100


@asynccontextmanager
async def _open(browser: "Browser", url: str) -> AsyncIterator[Any]:
    async with console_page(browser, url) as page:
        await page.wait_for_selector(".lanes li")
        yield page


async def _heap_mb(page: Any) -> float:
    """Return the heap of the page's scripts in MB, after a garbage collection."""
    session = await page.context.new_cdp_session(page)
    await session.send("HeapProfiler.collectGarbage")
    used: int = (await session.send("Runtime.getHeapUsage"))["usedSize"]
    return used / (1 << 20)
