"""Lite topics in the console: their table, their messages, and the groups that consume them."""

from typing import TYPE_CHECKING

import pytest

from mocketmq.broker.lite.subscriptions import LiteStart
from tests.support.api import Api
from tests.support.browser import console_page, overflow, unsaid, violations
from tests.support.chromium import needs_chromium
from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from playwright.async_api import Browser

expect = pytest.importorskip("playwright.async_api").expect

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="package")]

expect.set_options(timeout=PATIENCE_S * 1_000)

LONG = "a" * 64


@pytest.mark.parametrize("width", [1_280, 390])
async def test_lite_topics_are_shown_with_their_messages_and_groups(
    browser: "Browser", api: Api, width: int
) -> None:
    await api.ok("PUT", "/v1/topics/chats", {"type": "lite", "lite_expiration": 60})
    await api.ok("PUT", "/v1/groups/agents", {"lite_parent": "chats"})
    for name in (LONG, "session-1", "session-1"):
        await api.send("chats", f"hello {name}", lite_topic=name)
    subscriptions = api.emulator.broker.lite_subscriptions
    group = await subscriptions.admit("agents", "chats")
    await subscriptions.add("a@1", group, ["session-1"], LiteStart(), lambda _name: None)
    for queue in api.emulator.broker.registry.topics.lites.of("chats"):
        group.in_queue(queue)

    async with console_page(browser, api.emulator.url, "topics", width=width) as page:
        row = page.get_by_role("row", name="chats")
        await expect(row.locator("[data-label=Messages]")).to_have_text("3")
        await row.get_by_role("link", name="chats").click()
        await expect(page.locator(".figure").first).to_contain_text("3messages")
        messages = page.get_by_role("region", name="Newest messages of chats")
        await expect(messages.locator("tbody tr").first).to_contain_text("session-1")
        lites = page.get_by_role("region", name="Lite topics of chats")
        row = lites.locator("tbody tr").last
        await expect(row.locator("td").first).to_have_text("session-1")
        for label, text in (("Messages", "2"), ("Subscribers", "1"), ("Groups behind", "agents")):
            await expect(row.locator(f"[data-label='{label}']")).to_have_text(text)
        assert (await violations(page), await unsaid(page), await overflow(page)) == ([], [], 0)
        labels = await row.evaluate(
            "one => [...one.cells].map((cell) => getComputedStyle(cell, '::before').content)"
        )
        is_named = [label != "none" for label in labels]
        assert is_named == ([False] * 6 if width > 500 else [False, *[True] * 5])

        await page.goto(f"{api.emulator.url}/#/groups/agents")
        await expect(page.get_by_text("Consumes the lite topics of chats.")).to_be_visible()
        queues = page.get_by_role("region", name="Queues of agents")
        row = queues.locator("tbody tr").last
        await expect(row.locator("td").first).to_have_text("chats session-1")
        await expect(row.locator("[data-label=Lag]")).to_have_text("2")
        assert (await violations(page), await unsaid(page), await overflow(page)) == ([], [], 0)
