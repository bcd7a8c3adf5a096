"""A tab that stays open: after a day's number of events, the page uses no more memory than at first."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api import Api
from tests.support.browser import console_page
from tests.support.chromium import needs_chromium
from tests.support.patience import HANGING_S

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="package"), pytest.mark.slow]

EVENTS = 200_000
SLACK_BYTES = 4 << 20

FEED = """
const open = window.fetch;
let wanted = 0, sent = 0, more = () => {};
window.feed = (number) => { wanted += number; more(); return done(number); };
const done = async () => {
  while (sent < wanted) await new Promise((turn) => setTimeout(turn, 50));
  return sent;
};
const lane = (level) => ({ level: level || null, delay: "1m", delay_ms: 6e4, pending: sent % 90,
  delivered: 1, next_due_ms: sent + 9e4, oldest_overdue_ms: level === 3 ? sent - 100 : null,
  curve: [[sent + 9e4, sent % 90]], held: [] });
const spread = { count: sent, p50_us: 3, p99_us: 9, max_us: 20 };
const event = () => {
  const id = ++sent;
  const data = id % 20 === 0
    ? ["state", { now_ms: id, wall_ms: id, mode: "manual", rate: 0, pending: id, next_due: null, commits: id,
        lanes: Array.from({ length: 19 }, (_, level) => lane(level)), stored_per_s: id, delivered_per_s: id,
        lateness: { in_all: spread, by_level: [], in_time: [] } }]
    : ["arrivals", { records: [0, 1, 2].map((each) => ({ log_offset: 3 * id + each, kind: "sent",
        message_id: `M${id}-${each}`, topic: `t${id}`, queue_id: 0, group: null, tag: null,
        keys: [`k${id}`], store_ms: id, due_ms: null, level: null, lateness_us: null, size: 9,
        preview: `body ${id} ${each}` })),
        missed: 1, next_offset: 3 * id + 3 }];
  return `event: ${data[0]}\\nid: ${id}\\ndata: ${JSON.stringify(data[1])}\\n\\n`;
};
const stream = () => new ReadableStream({ async pull(controller) {
  while (sent >= wanted) await new Promise((wake) => { more = wake; });
  let text = "";
  for (let left = Math.min(200, wanted - sent); left > 0; left--) text += event();
  controller.enqueue(new TextEncoder().encode(text));
} });
window.fetch = (path, how) =>
  path === "/v1/stream" ? Promise.resolve(new Response(stream())) : open(path, how);
"""
"""Replaces the broker's stream with any number of events, as fast as the page accepts them."""


async def held(page: "Page") -> tuple[int, int]:
    """Return the bytes of the page's heap and the number of its nodes, after garbage collection."""
    session = await page.context.new_cdp_session(page)
    for _ in range(2):
        await session.send("HeapProfiler.collectGarbage")
    used: Any = await session.send("Runtime.getHeapUsage")
    counters: Any = await session.send("Memory.getDOMCounters")
    await session.detach()
    return used["usedSize"], counters["nodes"]


@pytest.mark.parametrize("room", ["levels", "messages"])
async def test_memory_of_the_page_is_stable_over_a_day_of_events(
    browser: "Browser", api: Api, room: str
) -> None:
    events = EVENTS if room == "levels" else EVENTS // 100  # other rooms draw a list with each event
    async with console_page(browser, api.emulator.url, room) as page:
        await page.add_init_script(FEED)
        await page.reload()
        async with asyncio.timeout(HANGING_S):
            await page.evaluate("number => feed(number)", events // 20)
            begin_bytes, begin_nodes = await held(page)
            assert await page.evaluate("number => feed(number)", events) == events + events // 20
        end_bytes, end_nodes = await held(page)
    assert end_bytes < begin_bytes + SLACK_BYTES
    assert end_nodes < 2 * begin_nodes
