"""The console with a screen reader: announcements, and how lanes and first steps are read."""

from typing import TYPE_CHECKING

import pytest

from tests.support.api import Api
from tests.support.browser import console_page, overflow, unsaid, violations
from tests.support.chromium import needs_chromium
from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from playwright.async_api import Browser

expect = pytest.importorskip("playwright.async_api").expect

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="package")]

expect.set_options(timeout=PATIENCE_S * 1_000)


async def test_moves_and_errors_are_announced_and_arrivals_are_not(browser: "Browser", api: Api) -> None:
    async with console_page(browser, api.emulator.url, "messages") as page:
        status = page.get_by_role("status")
        await api.send(delay_level=1)
        await expect(page.locator("tbody tr")).to_have_count(1)
        await expect(status).to_have_text("")
        await page.keyboard.press("1")
        await expect(status).to_contain_text("Moved by 1.0 s: 1 message delivered.")
        await page.goto(f"{api.emulator.url}/#/send")
        await expect(page.get_by_role("heading", name="Send")).to_be_visible()
        await page.get_by_label("Topic").fill("not a topic")
        await page.get_by_label("Body", exact=True).fill("x")
        await page.get_by_role("button", name="Send", exact=True).click()
        await expect(page.get_by_role("alert")).to_contain_text("topic")


async def test_a_lane_shows_waiting_and_overdue_messages(browser: "Browser", api: Api) -> None:
    await api.ok("POST", "/v1/faults", {"do": "hold", "level": 3, "name": "jam"})
    await api.send(body="held", delay_level=3)
    await api.ok("POST", "/v1/clock/advance", {"by": "1m"})
    await api.send(delay_level=3)
    async with console_page(browser, api.emulator.url) as page:
        lanes = page.get_by_role("list", name="Delay levels and start-deliver times")
        await expect(lanes.get_by_role("listitem")).to_have_count(19)
        lane = lanes.get_by_role("link", name="Level 3 10s 2 messages waiting next due in 10 s")
        await expect(lane).to_contain_text("1, up to 50 s")
        await expect(lane).to_contain_text("held by jam")
        await expect(lanes.get_by_role("link", name="overdue: 1, up to 50 s held by jam")).to_have_count(1)
        await lane.press("Enter")
        await expect(
            page.get_by_text("2 messages waiting, 1 overdue: 1 held by the fault jam.")
        ).to_be_visible()
        await expect(page.get_by_role("row", name="held")).to_contain_text("50 s overdue held by jam")
        await page.get_by_role("link", name="held").click()
        life = page.get_by_role("list", name="Life of the message")
        await expect(life).to_contain_text("Overdue.")
        await page.reload()
        await expect(life).to_contain_text("Overdue.")
        await expect(life).to_contain_text("Fault jam: hold for delivery")


async def test_a_new_broker_shows_the_first_steps(browser: "Browser", api: Api) -> None:
    async with console_page(browser, api.emulator.url) as page:
        first = page.get_by_role("region", name="No messages yet")
        doors = api.emulator.doors
        assert doors.namesrv
        await expect(first).to_contain_text(f"name server 127.0.0.1:{doors.namesrv.port}")
        await expect(first).to_contain_text(f"curl -s {api.emulator.url}/v1/topics/orders/messages")
        assert (await violations(page), await unsaid(page), await overflow(page)) == ([], [], 0)
        await first.get_by_role("link", name="Send one here").click()
        await expect(page.get_by_label("Topic")).to_have_value("orders")
        await page.get_by_label("Body", exact=True).fill("hello")
        await page.get_by_role("button", name="Send", exact=True).click()
        await page.get_by_role("link", name="Levels", exact=True).click()
        await expect(page.get_by_role("link", name="Level 3 10s 1 message waiting")).to_be_visible()
        await expect(first).to_have_count(0)
