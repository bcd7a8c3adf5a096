"""A page of the console in a real Chromium, driven by Playwright."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from tests.support.chromium import find_chromium
from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from playwright.async_api import Browser, HttpCredentials, Page


_NOTICES_STAY: Final = """
const later = window.setTimeout;
window.setTimeout = (act, ms, ...more) => (ms >= 8_000 ? 0 : later(act, ms, ...more));
"""
"""Keeps notices on the page, which otherwise removes them after eight seconds, too soon on a busy machine."""


class Faultless:
    """Collects errors, warnings and foreign requests of a page."""

    def __init__(self, page: "Page", origin: str) -> None:
        self.found: list[str] = []
        page.on("console", lambda message: self._hear(message.type, message.text))
        page.on("pageerror", lambda error: self.found.append(str(error)))
        page.on("request", lambda request: self._ask(request.url, origin))

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and "Failed to load resource" not in text:
            self.found.append(text)

    def _ask(self, url: str, origin: str) -> None:
        if not url.startswith(origin):
            self.found.append(f"asked for {url}")


@asynccontextmanager
async def running_browser() -> "AsyncIterator[Browser]":
    """Run the machine's own Chromium headless, because Playwright's is not installed."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        environment: dict[str, str | float | bool] = {**os.environ}
        browser = await playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"], env=environment
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def console_page(
    browser: "Browser",
    origin: str,
    room: str = "levels",
    *,
    width: int = 1_280,
    dark: bool = False,
    zone: str = "UTC",
    locale: str = "en",
    scale: float = 1,
    user: "HttpCredentials | None" = None,
) -> "AsyncIterator[Page]":
    """Open the console at this width; fails if the page logs an error or makes a foreign request.

    Screenshots are ``scale`` times as wide.
    """
    context = await browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
        has_touch=width < 500,
        device_scale_factor=scale,
        timezone_id=zone,
        locale=locale,
        http_credentials=user,
    )
    context.set_default_timeout(PATIENCE_S * 1_000)
    await context.add_init_script(_NOTICES_STAY)
    try:
        page = await context.new_page()
        faultless = Faultless(page, origin)
        await page.goto(f"{origin}/#/{room}")
        yield page
        assert faultless.found == []
    finally:
        await context.close()


async def violations(page: "Page") -> list[str]:
    """Return the violations that axe finds, with their places."""
    await page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
    found: Any = await page.evaluate("axe.run({rules: {'label-content-name-mismatch': {enabled: true}}})")
    return [
        f"{one['id']}: {one['help']}: {json.dumps([node['target'] for node in one['nodes']])}"
        for one in found["violations"]
    ]


async def overflow(page: "Page") -> int:
    """Return the number of pixels by which the page is wider than its window."""
    wider: int = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return wider


async def unsaid(page: "Page") -> list[str]:
    """Return the elements that lack an accessible name in Chromium's accessibility tree."""
    session = await page.context.new_cdp_session(page)
    nodes: Any = (await session.send("Accessibility.getFullAXTree"))["nodes"]
    await session.detach()
    shown = [node for node in nodes if not node["ignored"]]
    roles = [node["role"]["value"] for node in shown]
    found = [
        f"{roles.count(role)} of {role}"
        for role in ("RootWebArea", "banner", "navigation", "main", "status")
        if roles.count(role) != 1
    ]
    levels = [_property(node, "level") for node, role in zip(shown, roles, strict=True) if role == "heading"]
    if levels.count(1) != 1:
        found.append(f"headings of levels {levels}")
    for node, role in zip(shown, roles, strict=True):
        name = node.get("name", {}).get("value", "")
        if _property(node, "focusable") and role != "main" and not name.strip():
            found.append(f"{role} without a name")
        if _property(node, "live") and role not in ("status", "alert") and not _property(node, "root"):
            found.append(f"{role} {name} is told with every change")
    return found


def _property(node: Any, name: str) -> Any:
    return next(
        (one["value"].get("value") for one in node.get("properties", ()) if one["name"] == name), None
    )
