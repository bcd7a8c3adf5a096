"""``python -m tests.support.console_film OUTDIR``: the film of the console in the README and on the site.

A shop's messages wait in a broker whose clock is stopped. The console's button moves the clock by two hours,
in four steps, and a consumer takes the messages that become due. The film ends with the life of an order that
timed out, and with the lateness of all deliveries.
"""

import asyncio
import base64
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support.animated_webp import Frame, animated
from tests.support.api import Api, running_api
from tests.support.browser import console_page, running_browser
from tests.support.console_pictures import batch, order

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

LANGUAGES: Final = ("en", "zh-CN")
WIDTH: Final = 960
HEIGHT: Final = 792
_SCALE: Final = 0.75
"""Pixels of the film for each of the page, which is laid out for a desktop."""

_HOUR_MS: Final = 3_600_000
_STEPS: Final = 4
_MOVING: Final = 5
"""Frames while the page slides to the new time."""

_ENCODE: Final = """async ([png, side, quality]) => {
    const picture = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
    const {width, height} = picture;
    const canvas = new OffscreenCanvas(width, height);
    const context = canvas.getContext("2d");
    context.drawImage(picture, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
    const before = window.before;
    window.before = pixels;
    const differs = (left, top) => {
        for (let y = top; y < Math.min(top + side, height); y++)
            for (let at = y * width + left; at < y * width + Math.min(left + side, width); at++)
                if (pixels[at] !== before[at]) return true;
        return false;
    };
    let changed = 0;
    for (let top = 0; top < height; top += side)
        for (let left = 0; left < width; left += side)
            if (!before || differs(left, top)) changed++;
            else context.clearRect(left, top, side, side);
    if (!changed) return null;
    const blob = await canvas.convertToBlob({type: "image/webp", quality});
    return new Uint8Array(await blob.arrayBuffer()).toBase64();
}"""
_BLOCK: Final = 16
"""Side of VP8's squares, in pixels. A frame has only the squares that differ from the frame before."""
_QUALITY: Final = 0.95


class Camera:
    """Collects the frames of a film of a page."""

    def __init__(self, shown: "Page", encoder: "Page") -> None:
        self.frames: list[Frame] = []
        self._shown = shown
        self._encoder = encoder

    async def take(self, duration_ms: int, *, settled: bool = True) -> None:
        """Add a frame, by default after the page's animations.

        If nothing changed, the last frame is shown for longer instead.
        """
        if settled:
            await self._shown.wait_for_timeout(2_500)
        png = base64.b64encode(await self._shown.screenshot()).decode()
        encoded = await self._encoder.evaluate(_ENCODE, [png, _BLOCK, _QUALITY])
        if encoded is None:
            last = self.frames.pop()
            self.frames.append(last._replace(duration_ms=last.duration_ms + duration_ms))
        else:
            self.frames.append(Frame(base64.b64decode(encoded), duration_ms))


async def take(out: Path) -> None:
    """Write the film in each language."""
    async with running_browser() as browser:
        for language in LANGUAGES:
            folder = out if language == "en" else out / language
            folder.mkdir(exist_ok=True)
            async with running_api(grpc=False) as api:
                await fill(api)
                frames = await film(browser, api, language)
            (folder / "console.webp").write_bytes(animated(frames, WIDTH, HEIGHT))


async def film(browser: "Browser", api: Api, language: str) -> list[Frame]:
    """Move the clock by two hours in the console, then look at the order and at the lateness."""
    encoder = await browser.new_page()
    async with console_page(
        browser, api.emulator.url, "levels", width=1_280, scale=_SCALE, locale=language
    ) as page:
        await page.set_viewport_size({"width": round(WIDTH / _SCALE), "height": round(HEIGHT / _SCALE)})
        await page.wait_for_selector(".lanes li")
        camera = Camera(page, encoder)
        button = page.locator("[aria-keyshortcuts='4']")
        await button.hover()
        await camera.take(1_500)
        for _ in range(_STEPS):
            for notice in await page.locator(".notice .close").all():
                await notice.click()
            await button.click()
            for _ in range(_MOVING):
                await camera.take(100, settled=False)
            await consume(api)
            await camera.take(850)
        for notice in await page.locator(".notice .close").all():
            await notice.click()
        await page.goto(f"{api.emulator.url}/#/messages/order-4711")
        await page.wait_for_selector(".life")
        await camera.take(2_000)
        await page.locator("[data-room=lateness]").click()
        await page.wait_for_selector(".scroll")
        await camera.take(2_000)
    await encoder.close()
    return camera.frames


async def fill(api: Api) -> None:
    """Send a shop's orders in the 25 minutes before a full hour, then reminders and order 4711."""
    draw = random.Random(7)
    now_ms = (await api.ok("GET", "/v1/clock"))["now_ms"]
    hour_ms = (now_ms // _HOUR_MS + 2) * _HOUR_MS
    number = 4_200
    for minute in range(25, 0, -1):
        await api.ok("POST", "/v1/clock/to", {"instant_ms": hour_ms - minute * 60_000})
        levels = [level for level in (18, 17, 16, 15, 14, 12, 10, 9, 7, 6) if draw.random() < 0.45]
        orders = [order(number + each, delay_level=draw.choice(levels)) for each in range(6 * len(levels))]
        if orders:
            await batch(api, "orders", orders)
        number += len(orders)
        await consume(api)
    await api.ok("POST", "/v1/clock/to", {"instant_ms": hour_ms})
    reminders = [
        {"body": f"remind customer {each}", "delay_ms": draw.randint(120_000, 2 * _HOUR_MS)}
        for each in range(120)
    ]
    await batch(api, "reminders", reminders)
    await api.send("orders", **order(4_711, delay_level=18), message_id="order-4711")
    await consume(api)


async def consume(api: Api) -> None:
    """Receive and acknowledge all that is available."""
    for topic, group in (("orders", "shop"), ("reminders", "mail")):
        while taken := await api.receive(topic, group):
            receipts = [one["receipt"] for one in taken]
            await api.ok("POST", f"/v1/groups/{group}/ack", {"receipts": receipts})


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    asyncio.run(take(directory))
