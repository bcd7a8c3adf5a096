"""A headless Chromium with one page, controlled by the DevTools protocol."""

import asyncio
import base64
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from tests.support.patience import HANGING_S

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
    "--remote-debugging-port=0",
)

_DRAWN: Final = """new Promise((done) => {
    const root = document.documentElement;
    const look = () => root.dataset.drawn && done();
    new MutationObserver(look).observe(root, {attributes: true});
    look();
})"""


def find_chromium() -> str | None:
    """Return the path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


needs_chromium = pytest.mark.skipif(
    find_chromium() is None, reason=f"no Chromium on the PATH: none of {', '.join(NAMES)}"
)


class Page:
    """A page that records its console output and its network requests."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        self._socket = socket
        self._session: dict[str, str] = {}
        self._number = 0
        self._is_loaded = False

    async def attach(self) -> None:
        """Open the page and subscribe to its events."""
        target = await self._call("Target.createTarget", url="about:blank")
        attached = await self._call("Target.attachToTarget", flatten=True, targetId=target["targetId"])
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self._call(f"{domain}.enable")

    async def show(self, path: Path, width: int, *, dark: bool = False, scale: float = 1) -> None:
        """Open the report at this absolute path and width, and wait until its charts are drawn."""
        await self.resize(width, scale)
        await self.prefer("dark" if dark else "light")
        self._is_loaded = False
        await self._call("Page.navigate", url=path.as_uri())
        while not self._is_loaded:
            self._hear(await self._socket.receive_json())
        await asyncio.wait_for(self.evaluate(_DRAWN), timeout=HANGING_S)

    async def resize(self, width: int, scale: float = 1) -> None:
        """Set the width of the window; below 500, the page is shown as on a phone."""
        await self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=scale,
            mobile=width < 500,
        )

    async def print_preview(self, width: int) -> None:
        """Show the page as printed on paper of this width, until the next ``show``."""
        await self._call("Emulation.setEmulatedMedia", media="print")
        await self.resize(width)

    async def prefer(self, scheme: str) -> None:
        """Emulate a system that prefers the ``dark`` or the ``light`` theme."""
        await self._call(
            "Emulation.setEmulatedMedia",
            media="",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, or of its promise. Raises RuntimeError."""
        answer = await self._call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    async def screenshot(self, begin: str, height: int) -> bytes:
        """Return a PNG of this many pixels of the page's height, from the top of the selected element."""
        top = await self.evaluate(
            f"document.querySelector({json.dumps(begin)}).getBoundingClientRect().top + scrollY"
        )
        width, whole = await self.evaluate("[innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": top, "width": width, "height": min(height, whole - top), "scale": 1}
        answer = await self._call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(answer["data"])

    async def pdf(self) -> bytes:
        """Return the page as a PDF."""
        answer = await self._call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)  # A4, in inches
        return base64.b64decode(answer["data"])

    async def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        call = {"id": self._number, "method": method, "params": params}
        await self._socket.send_json(call | self._session)
        while True:
            message = await self._socket.receive_json()
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result
            self._hear(message)

    def _hear(self, event: dict[str, Any]) -> None:
        method, params = event["method"], event["params"]
        self._is_loaded |= method == "Page.loadEventFired"
        if method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.said.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.said.append(f"{params['type']}: {params['args']}")
        elif method == "Log.entryAdded":
            self.said.append(str(params["entry"]))


@asynccontextmanager
async def open_page() -> AsyncIterator[Page]:
    """Open a page in a separate Chromium."""
    chromium = find_chromium()
    assert chromium is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            *(chromium, *_FLAGS, f"--user-data-dir={profile}"), stderr=asyncio.subprocess.PIPE
        )
        try:
            assert process.stderr is not None
            url = ""
            while not url.startswith("ws://"):
                line = await process.stderr.readline()
                assert line, "Chromium ended"
                url = line.decode(errors="replace").rpartition(" on ")[2].strip()
            async with (
                aiohttp.ClientSession() as client,
                client.ws_connect(url, max_msg_size=0, timeout=aiohttp.ClientWSTimeout(ws_close=1)) as socket,
            ):
                page = Page(socket)
                await page.attach()
                yield page
        finally:
            process.terminate()
            await process.wait()
