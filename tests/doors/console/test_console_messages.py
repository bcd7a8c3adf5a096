"""Reading and searching the console's list of messages, and its pages of topics and groups."""

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api import Api
from tests.support.browser import console_page, overflow, violations
from tests.support.chromium import needs_chromium
from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

expect = pytest.importorskip("playwright.async_api").expect

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="package")]

expect.set_options(timeout=PATIENCE_S * 1_000)

LONG = "a-topic-name-of-79-characters-as-teams-with-many-services-and-environments-have"


def rows(page: "Page") -> Any:
    return page.get_by_role("region", name="Messages").locator("tbody tr")


async def test_a_message_keeps_its_one_row_while_its_state_changes(browser: "Browser", api: Api) -> None:
    async with console_page(browser, api.emulator.url, "messages") as page:
        await api.send(body="order 7", delay_level=3)
        row = rows(page)
        await expect(row).to_contain_text("pending")
        await api.ok("POST", "/v1/clock/advance", {"by": "10s"})
        await expect(row).to_contain_text("never taken")
        [taken] = await api.receive()
        await expect(row).to_contain_text("in flight")
        await expect(row).to_contain_text("by billing")
        await api.ok("POST", "/v1/groups/billing/ack", {"receipts": [taken["receipt"]]})
        await expect(row).to_contain_text("acknowledged")
        await expect(row).to_have_count(1)


async def test_messages_are_searched_by_state(browser: "Browser", api: Api) -> None:
    for name in ("dead", "taken"):
        await api.send(body=f"body of {name}", tag=name)
        [received] = await api.receive(filter=name)
        if name == "dead":
            receipts = [received["receipt"]]
            await api.ok("POST", "/v1/groups/billing/give-back", {"receipts": receipts, "delay_level": -1})
    await api.send(body="body of late", delay_ms=60_000)
    async with console_page(browser, api.emulator.url, "messages") as page:
        await expect(rows(page)).to_have_count(3)
        state = page.get_by_role("combobox", name="State")
        for name, body in (("dead", "dead"), ("in flight", "taken"), ("pending (delayed)", "late")):
            await state.select_option(name)
            await expect(page.get_by_text("1 message with state ")).to_be_visible()
            await expect(rows(page)).to_contain_text(f"body of {body}")
        await state.select_option("never taken")
        await expect(page.get_by_text("Nothing found", exact=True)).to_be_visible()
        await page.get_by_role("link", name="Show all messages").click()
        await expect(rows(page)).to_have_count(3)


async def test_older_messages_are_a_page_away(browser: "Browser", api: Api) -> None:
    many = [{"body": f"body {number}"} for number in range(130)]
    await api.ok("POST", "/v1/topics/orders/messages/batch", {"messages": many})
    async with console_page(browser, api.emulator.url, "messages") as page:
        await expect(rows(page)).to_have_count(100)
        await page.get_by_role("link", name="Older messages").click()
        await expect(rows(page)).to_have_count(30)
        await expect(rows(page).last).to_contain_text("body 0")
        await page.get_by_role("link", name="Newest messages").click()
        await expect(rows(page).first).to_contain_text("body 129")


async def test_a_refused_search_says_why(browser: "Browser", api: Api) -> None:
    async with console_page(browser, api.emulator.url, "messages?topic=not%20a%20topic") as page:
        await expect(page.get_by_text("The search was refused: Topic is ")).to_be_visible()
        await expect(page.get_by_text("Searching…")).to_have_count(0)


@pytest.mark.parametrize("width", [1_280, 390])
async def test_long_names_do_not_push_other_columns_out(browser: "Browser", api: Api, width: int) -> None:
    await api.ok("PUT", f"/v1/groups/{LONG}")
    for delay in ({}, {"delay_level": 5}):
        await api.send(LONG, "x" * 200, tag="t" * 80, keys=["k" * 80, "l" * 80], **delay)
    await api.receive(LONG, LONG)
    async with console_page(browser, api.emulator.url, width=width) as page:
        for room in ("messages", "levels/5", "topics", f"topics/{LONG}", "groups", f"groups/{LONG}"):
            await page.goto(f"{api.emulator.url}/#/{room}")
            await expect(page.locator("h1")).to_be_visible()
            regions = page.get_by_role("region")
            await expect(regions.first).to_be_visible()
            for region in await regions.all():
                hidden = await region.evaluate("one => one.scrollWidth - one.clientWidth")
                assert (room, hidden) == (room, 0)
            assert (room, await overflow(page)) == (room, 0)
        await page.goto(f"{api.emulator.url}/#/messages")
        await expect(rows(page).first.get_by_title(LONG, exact=True)).to_be_visible()


async def test_a_topic_has_a_page(browser: "Browser", api: Api) -> None:
    await api.ok("PUT", "/v1/topics/orders", {"read_queues": 3, "write_queues": 3, "type": "fifo"})
    await api.send(body="first", queue_id=2)
    await api.receive()
    async with console_page(browser, api.emulator.url, "topics") as page:
        await page.get_by_role("link", name="orders").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("orders")
        for figure in ("1messages", "3queues", "read and writepermission", "fifomessage type"):
            await expect(page.locator(".figures")).to_contain_text(figure)
        queues = page.get_by_role("region", name="Queues of orders")
        await expect(queues.locator("tbody tr").last).to_have_text("2011")
        groups = page.get_by_role("region", name="Consumer groups of orders")
        await expect(groups.get_by_role("row", name="billing")).to_contain_text("11")
        messages = page.get_by_role("region", name="Newest messages of orders")
        await expect(messages).to_contain_text("in flight")
        await api.send(body="second")
        await expect(messages.locator("tbody tr")).to_have_count(2)
        await page.get_by_role("button", name="Delete orders").click()
        await page.get_by_role("button", name="Delete it").click()
        await expect(page.get_by_text("No topics yet")).to_be_visible()
        await page.goto(f"{api.emulator.url}/#/topics/orders")
        await expect(page.get_by_text("No such topic")).to_be_visible()


async def test_topics_and_groups_are_searched_and_paged(browser: "Browser", api: Api) -> None:
    for number in range(105):
        await api.ok("PUT", f"/v1/topics/topic-{number:03}")
        await api.ok("PUT", f"/v1/groups/group-{number:03}")
    async with console_page(browser, api.emulator.url) as page:
        for noun in ("topic", "group"):
            await page.goto(f"{api.emulator.url}/#/{noun}s")
            shown = page.locator("tbody tr")
            await expect(page.get_by_text(f"1 to 100 of 105 {noun}s")).to_be_visible()
            await page.get_by_role("button", name="Next page").click()
            await expect(shown).to_have_count(5)
            await expect(page.get_by_text(f"101 to 105 of 105 {noun}s")).to_be_visible()
            await page.get_by_role("button", name="Previous page").click()
            await expect(shown).to_have_count(100)
            await page.get_by_role("searchbox", name="Search").fill("-10")
            await expect(shown).to_have_count(5)
            await page.get_by_role("searchbox", name="Search").fill("none")
            await expect(page.get_by_text(f"No {noun} found")).to_be_visible()


async def test_the_first_page_depends_on_whether_levels_are_used(browser: "Browser", api: Api) -> None:
    await api.send(body="order 7", delay_ms=0)
    async with console_page(browser, api.emulator.url, "") as page:
        await expect(page.get_by_role("heading", level=1)).to_have_text("Messages")
        await expect(rows(page)).to_contain_text("order 7")
        await api.send(delay_level=18)
        await expect(rows(page)).to_have_count(2)
        await page.get_by_role("link", name="mocketmq").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Levels")


async def test_an_unknown_address_leads_to_the_first_page(browser: "Browser", api: Api) -> None:
    await api.send(body="order 7")
    async with console_page(browser, api.emulator.url, "message/7F00") as page:
        await expect(page.get_by_role("heading", level=1)).to_have_text("Messages")
        await expect(page).to_have_url(re.compile("#/messages$"))


async def test_the_clock_tells_its_mode_and_time_zone(browser: "Browser", api: Api) -> None:
    async with console_page(browser, api.emulator.url, zone="Asia/Kolkata") as page:
        await expect(page.locator(".zone")).to_have_text("UTC+05:30")
        await expect(page.locator(".chip")).to_have_text("stopped")
        await expect(page.get_by_title(re.compile("time stands still until a button"))).to_be_visible()


async def test_a_messages_life_is_told_in_the_browsers_time_zone(browser: "Browser", api: Api) -> None:
    sent = await api.send(delay_level=5)
    [pending] = (await api.ok("GET", "/v1/delayed"))["messages"]
    due = datetime.fromtimestamp(pending["due_ms"] / 1_000, timezone(timedelta(hours=5, minutes=30)))
    async with console_page(
        browser, api.emulator.url, f"messages/{sent['message_id']}", zone="Asia/Kolkata"
    ) as page:
        life = page.get_by_role("list", name="Life of the message")
        await expect(life).to_contain_text(re.compile(f"for 1 m until .*{due:%H:%M:%S}"))


async def test_open_ports_are_told_by_what_they_are_for(browser: "Browser", api: Api) -> None:
    async with console_page(browser, api.emulator.url, "clients") as page:
        await expect(page.get_by_text("name server", exact=True)).to_be_visible()
        await expect(page.get_by_text("VIP channel")).to_be_visible()
        await expect(page.get_by_text("namesrv")).to_have_count(0)


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1_280, True)])
async def test_the_page_of_the_api_fits_and_can_be_read(
    browser: "Browser", api: Api, width: int, dark: bool
) -> None:
    async with console_page(browser, api.emulator.url, width=width, dark=dark) as page:
        await page.goto(f"{api.emulator.url}/docs#message_states")
        await expect(page.locator("details[open]")).to_have_count(1)
        assert (await violations(page), await overflow(page)) == ([], 0)
