"""The console of a broker that was opened from a pack: what failed, what led to it, steps on and back."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from mocketmq.broker.packs.pack_file import read_pack
from tests.support.api import Api, opened_api, running_api
from tests.support.browser import console_page, overflow, unsaid, violations
from tests.support.chromium import needs_chromium
from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from playwright.async_api import Browser

expect = pytest.importorskip("playwright.async_api").expect

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="package")]

expect.set_options(timeout=PATIENCE_S * 1_000)

TEST = "tests/test_orders.py::test_an_order_expires[<b>7</b>]"
FAILURE = """
    def test_an_order_expires(mocketmq):
>       assert mocketmq.receive("orders", group="billing")
E       AssertionError: <script>window.ran=1</script>
E       assert []
"""


@pytest_asyncio.fixture(loop_scope="package")
async def opened(tmp_path: Path) -> AsyncIterator[Api]:
    """A broker that was opened from the pack of another one."""
    file = tmp_path / "failed.mocketmq"
    async with running_api() as api:
        await api.send(body="first", keys=["order-1"])
        [taken] = await api.receive()
        await api.ok("POST", "/v1/groups/billing/ack", {"receipts": [taken["receipt"]]})
        await api.send(body="order 7", delay_level=16, keys=["order-7"])
        await api.ok("POST", "/v1/clock/advance", {"by": "29m"})
        file.write_bytes(await api.ok("POST", "/v1/pack", {"test": TEST, "failure": FAILURE}))
    async with opened_api(read_pack(file)) as api:
        yield api


async def test_the_story_goes_on_step_by_step_and_back(browser: "Browser", opened: Api) -> None:
    async with console_page(browser, opened.emulator.url, "story") as page:
        await expect(page.get_by_role("heading", level=1)).to_have_text(f"{TEST} failed")
        banner = page.get_by_role("region", name="The pack that was opened")
        await expect(banner).to_contain_text("AssertionError: <script>window.ran=1</script>")
        await expect(page.get_by_label("What failed")).to_contain_text("def test_an_order_expires")
        before = page.get_by_role("list", name="What led to it")
        for event in ("Sent to orders by http, parked", "Acknowledged by billing", "Clock moved by 29 m"):
            await expect(before).to_contain_text(event)
        await expect(page.get_by_text("The clock stands at the moment of the failure.")).to_be_visible()
        await expect(page.get_by_text("Nothing has happened since.")).to_be_visible()
        await page.get_by_role("main").get_by_role("button", name="Next due").click()
        after = page.get_by_role("list", name="What comes next")
        await expect(after).to_contain_text("Clock moved by 1 m")
        await expect(after).to_contain_text("Delivered to orders")
        await expect(after).not_to_contain_text("Acknowledged")
        await expect(page.get_by_text("The clock is 1 m after the failure.")).to_be_visible()
        assert [one["body"] for one in await opened.receive()] == ["order 7"]
        await expect(after).to_contain_text("Taken by billing")
        await banner.get_by_role("button", name="Back to the failure").click()
        await expect(page.get_by_text("The clock stands at the moment of the failure.")).to_be_visible()
        await expect(page.get_by_text("Nothing has happened since.")).to_be_visible()
        assert await opened.receive() == []
        await before.get_by_role("link", name=re.compile("^…[0-9A-F]{8}$")).last.click()
        await expect(page.get_by_role("list", name="Life of the message")).to_contain_text("Still waiting.")
        await expect(banner).to_be_visible()
        assert await page.evaluate("window.ran") is None


@pytest.mark.parametrize("width", [390, 1_280])
@pytest.mark.parametrize("locale", ["en", "zh-CN"])
async def test_the_story_fits_and_is_accessible(
    browser: "Browser", opened: Api, width: int, locale: str
) -> None:
    url = opened.emulator.url
    async with console_page(browser, url, "story", width=width, locale=locale, dark=width == 390) as page:
        await expect(page.locator("main .life").first).to_be_visible()
        assert await overflow(page) == 0
        assert await violations(page) == []
        assert await unsaid(page) == []
        title = {"en": "What led to it", "zh-CN": "失败之前发生了什么"}[locale]
        await expect(page.get_by_role("heading", name=title)).to_be_visible()


async def test_no_other_broker_has_a_story(browser: "Browser", api: Api) -> None:
    async with console_page(browser, api.emulator.url, "story") as page:
        await expect(page.get_by_text("This broker was not opened from a pack.")).to_be_visible()
        await expect(page.locator("#pack")).to_be_hidden()
        assert await page.get_by_role("link", name="Story").count() == 0
