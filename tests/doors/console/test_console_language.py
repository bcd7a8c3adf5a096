"""The console's languages: how one is chosen, and that all it shows is from the catalogue."""

import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.doors.console.test_console import ROOMS, fill
from tests.support.api import Api
from tests.support.browser import console_page
from tests.support.chromium import needs_chromium
from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page, Route

expect = pytest.importorskip("playwright.async_api").expect

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="package")]

expect.set_options(timeout=PATIENCE_S * 1_000)

SHOWN: Final = """() => {
  const texts = [];
  const data = "script, style, noscript, datalist, [lang]:not(html), dl .mono, pre, .json, code";
  const attributes = ["aria-label", "title", "placeholder", "alt", "data-label", "data-phone"];
  const kinds = NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT;
  const all = document.createTreeWalker(document.documentElement, kinds);
  while (all.nextNode()) {
    const one = all.currentNode;
    if (one.parentElement?.closest(data)) continue;
    if (one.nodeType === Node.TEXT_NODE) texts.push(one.data);
    else for (const name of attributes) texts.push(one.getAttribute(name) ?? "");
  }
  return texts;
}"""
"""Collects what a reader sees or hears, apart from bodies, properties and commands, which are data."""

DATA: Final = frozenset(
    {
        "mocketmq",
        "orders",
        "order",
        "bills",
        "raw",
        "billing",
        "hanging",
        "shown",
        "dead",
        "taken",
        "cancelled",
    }
    | {
        "bytes",
        "none",
        "new",
        "null",
        "late",
        "at",
        "time",
        "held",
        "never",
        "mind",
        "fault",
        "curl",
        "Python",
        "Java",
    }
    | {"http", "xff"}
)
"""Words of the test's own messages, and names that are the same in every language."""
WORD: Final = re.compile("[A-Za-z]*[a-z]{2,}[A-Za-z]*")
"""A word, but for codes in capitals such as those of errors."""
CONTENT: Final = "main :is(.scroll, .empty, .lanes li, .life, .bad)"


def without_letters(text: Any) -> Any:
    """Replace the letters of a text of the catalogue, but not its fields."""
    if isinstance(text, dict):
        return {form: without_letters(one) for form, one in text.items()}
    return "".join(
        part if part.startswith("{") else re.sub("[A-Za-z]", "ж", part)
        for part in re.split(r"(\{\w+\})", text)
    )


async def read(page: "Page") -> str:
    shown: list[str] = await page.evaluate(SHOWN)
    return "\n".join(shown)


async def show(page: "Page", origin: str, room: str) -> None:
    """Open a view, and wait until it shows what the broker has."""
    await page.goto(f"{origin}/#/{room}")
    await expect(page.locator("main")).to_have_attribute("data-room", re.split("[/?]", room)[0])
    await expect(page.locator("h1")).to_be_visible()
    await expect(page.locator(".due")).to_contain_text(re.compile(r"\d"))
    content = "main .form" if room.startswith("send") else CONTENT
    await expect(page.locator(content).first).to_be_visible()


async def test_all_that_is_shown_is_from_the_catalogue(browser: "Browser", api: Api) -> None:
    """With a catalogue whose texts have no Latin letters, a word in Latin letters is data or a defect."""
    english = json.loads(files("mocketmq.console").joinpath("en.json").read_text())
    disguised = json.dumps({key: without_letters(text) for key, text in english.items()})

    async def answer(route: "Route") -> None:
        await route.fulfill(body=disguised, content_type="application/json")

    await fill(api)
    async with console_page(browser, api.emulator.url, locale="zh-CN") as page:  # whose dates have no letters
        await page.route("**/console/zh.json", answer)
        await page.reload()
        for room in ROOMS:
            await show(page, api.emulator.url, room)
            assert (room, set(WORD.findall(await read(page))) - DATA) == (room, set())
        await page.locator("main .make button").first.click()  # resets the offsets of billing
        await expect(page.locator(".notice")).to_have_count(1)
        await show(page, api.emulator.url, "levels/5")
        for key in ("1", "n"):
            await page.keyboard.press(key)
        await expect(page.locator(".notice")).to_have_count(3)
        await page.keyboard.press("?")
        await expect(page.locator("dialog dl")).to_be_visible()
        assert set(WORD.findall(await read(page))) - DATA == set()
        await page.locator("dialog button").click()
        await show(page, api.emulator.url, "levels/17")
        await page.locator("main button.danger").first.click()
        await expect(page.locator("dialog")).to_be_visible()
        assert set(WORD.findall(await read(page))) - DATA == set()


async def test_the_console_follows_the_browser_until_it_is_switched(browser: "Browser", api: Api) -> None:
    sent = await api.send(body="order 7", delay_level=5)
    async with console_page(browser, api.emulator.url, locale="zh-CN") as page:
        root = page.locator("html")
        await expect(root).to_have_attribute("lang", "zh-CN")
        await expect(page).to_have_title("延迟级别 · mocketmq")
        await expect(page.get_by_role("link", name="延迟级别 5 1m 1 条消息等待中")).to_contain_text("1 分后")
        await expect(page.locator(".day").first).to_have_text(re.compile(r"^\d{4}年\d{1,2}月\d{1,2}日$"))
        await page.keyboard.press("5")
        await expect(page.locator(".notice")).to_contain_text("推进了 2 小时：投递 1 条消息。")
        await page.goto(f"{api.emulator.url}/#/messages/{sent['message_id']}")
        life = page.get_by_role("list", name="消息的生命周期")
        await expect(life).to_contain_text("经 HTTP 发送到 orders，暂存 1 分（延迟级别 5），到 ")
        await expect(life).to_contain_text("已投递到 orders")
        await page.get_by_role("button", name="English").click()
        await expect(root).to_have_attribute("lang", "en")
        await expect(page.get_by_role("list", name="Life of the message")).to_contain_text(
            "Delivered to orders"
        )
        await page.reload()
        await expect(root).to_have_attribute("lang", "en")
        await page.get_by_role("button", name="中文").click()
        await expect(root).to_have_attribute("lang", "zh-CN")


@pytest.mark.parametrize(
    ("locale", "language", "day"),
    [("fr", "en", "Jan 5, 2030"), ("en-GB", "en", "5 Jan 2030"), ("zh-TW", "zh-CN", "2030年1月5日")],
)
async def test_dates_follow_the_browsers_own_variety(
    browser: "Browser", api: Api, locale: str, language: str, day: str
) -> None:
    await api.ok("POST", "/v1/clock/to", {"instant_ms": 1_893_837_600_000})
    async with console_page(browser, api.emulator.url, locale=locale) as page:
        await expect(page.locator("html")).to_have_attribute("lang", language)
        await expect(page.locator(".day").first).to_have_text(day)
        await expect(page.locator(".clock")).to_have_text("10:00:00.000")


async def test_errors_of_the_api_are_marked_as_english(browser: "Browser", api: Api) -> None:
    async with console_page(
        browser, api.emulator.url, "messages?topic=not%20a%20topic", locale="zh-CN"
    ) as page:
        refused = page.locator("main .bad")
        await expect(refused).to_contain_text("搜索被拒绝：Topic is ")
        await expect(refused.locator("[lang=en]")).to_contain_text("Topic is ")
