"""``python -m tests.support.console_pictures OUTDIR``: the pictures of the console in docs/ and the README.

A broker receives a few minutes of a shop's messages, with clock moves in between. Chromium draws each view.
"""

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from mocketmq.remoting.wire.codes import RequestCode
from tests.support.api import Api, running_api
from tests.support.browser import console_page, running_browser
from tests.support.remoting import connected

PICTURES: Final = (
    ("levels", "levels", 1_280, False, 1_070, "en"),
    ("levels-dark", "levels", 1_280, True, 1_070, "en"),
    ("levels-phone", "levels", 390, True, 900, "en"),
    ("levels", "levels", 1_280, False, 1_070, "zh-CN"),
    ("lane", "levels/16", 1_280, False, 620, "en"),
    ("messages", "messages?topic=bills", 1_280, False, 700, "en"),
    ("message", "messages/order-4711", 1_280, True, 900, "en"),
    ("send", "send?again=order-4711", 1_280, False, 800, "en"),
    ("topics", "topics", 1_280, True, 560, "en"),
    ("topic", "topics/bills", 1_280, False, 900, "en"),
    ("group", "groups/billing", 1_280, False, 900, "en"),
    ("clients", "clients", 1_280, False, 420, "en"),
    ("faults", "faults", 1_280, True, 700, "en"),
    ("lateness", "lateness", 1_280, False, 1_120, "en"),
)
"""Name, view, width, whether the theme is dark, height and language of each picture."""

_CONTENT: Final = "main :is(.lanes li, .life, .scroll, .form)"
_DRAWS_S: Final = 1.5


async def take(out: Path) -> None:
    """Write a PNG of each view."""
    async with (
        running_api(clock="real", grpc=False) as api,
        running_browser() as browser,
        consumer(api, "10.4.1.17@1#8842", "shipping", "orders", "created || urgent", language="JAVA"),
        consumer(api, "10.4.1.22@7#1203", "billing", "bills", "*", language="GO"),
    ):
        await fill(api)
        for name, room, width, is_dark, height, locale in PICTURES:
            async with console_page(
                browser, api.emulator.url, room, width=width, dark=is_dark, locale=locale
            ) as page:
                await page.set_viewport_size({"width": width, "height": height})
                await page.wait_for_selector(_CONTENT)
                await page.wait_for_timeout(_DRAWS_S * 1_000)
                folder = out if locale == "en" else out / locale
                folder.mkdir(exist_ok=True)
                await page.screenshot(path=folder / f"console-{name}.png")


async def fill(api: Api) -> None:
    """Send a shop's orders, reminders and bills, and settle some."""
    draw = random.Random(19)
    number = 4_600
    await api.ok("POST", "/v1/faults", {"do": "hold", "level": 4, "name": "stuck"})
    for level in (18, 17, 16, 16, 15, 16, 14, 12, 13, 16, 11, 10, 9, 8, 7, 6, 5, 16, 5, 4):
        count = draw.choice([3, 8, 40, 150]) if level != 16 else draw.randint(20, 90)
        await batch(api, "orders", [order(number + each, delay_level=level) for each in range(count)])
        number += count
        await api.ok("POST", "/v1/clock/advance", {"by": f"{draw.randint(4, 40)}s"})
    await batch(
        api,
        "reminders",
        [
            {"body": f"remind customer {each}", "delay_ms": draw.randint(20_000, 3_000_000)}
            for each in range(90)
        ],
    )
    await api.send(**order(4_711, delay_level=5) | {"tag": "urgent"}, message_id="order-4711", topic="orders")
    await api.ok("POST", "/v1/clock/advance", {"by": "62s"})
    await batch(
        api, "bills", [{"body": f'{{"bill": {each}}}', "keys": [f"bill-{each}"]} for each in range(40)]
    )
    taken = await api.receive("bills", max=24)
    await api.ok("POST", "/v1/groups/billing/ack", {"receipts": [one["receipt"] for one in taken[4:]]})
    dead = [one["receipt"] for one in taken[:2]]
    await api.ok("POST", "/v1/groups/billing/give-back", {"receipts": dead, "delay_level": -1})
    [urgent] = await api.receive("orders", "shipping", filter="urgent")
    await api.ok("POST", "/v1/groups/shipping/give-back", {"receipts": [urgent["receipt"]], "delay_level": 1})
    await api.ok("PUT", "/v1/topics/returns", {"read_queues": 8, "write_queues": 8})
    refuse = {"do": "refuse", "error": "SYSTEM_BUSY", "operation": "send", "topic": "returns", "next": 20}
    await api.ok("POST", "/v1/faults", refuse)
    await api.ok("POST", "/v1/faults", {"do": "deliver-late", "by": "uniform(1s, 5s)", "level": 17})
    for _ in range(3):
        await api.refused(503, "POST", "/v1/topics/returns/messages", {"body": "x"})
    for _ in range(20):  # the running clock delivers these messages, and the console shows their lateness
        await batch(
            api, "orders", [order(number + each, delay_level=1) for each in range(draw.randint(5, 60))]
        )
        await asyncio.sleep(1)
    for one in await api.receive("%RETRY%shipping", "shipping"):
        await api.ok("POST", "/v1/groups/shipping/ack", {"receipts": [one["receipt"]]})


@asynccontextmanager
async def consumer(
    api: Api, client_id: str, group: str, topic: str, tags: str, *, language: str
) -> AsyncIterator[None]:
    """Connect a client that is listed as a consumer, and receives nothing."""
    subscription = {"topic": topic, "subString": tags, "expressionType": "TAG"}
    of_group = {"groupName": group, "messageModel": "CLUSTERING", "subscriptionDataSet": [subscription]}
    beat = {"clientID": client_id, "producerDataSet": [], "consumerDataSet": [of_group]}
    port = (await api.ok("GET", "/v1/info"))["doors"]["broker"]["port"]
    async with connected("127.0.0.1", port) as client:
        await client.ok(RequestCode.HEART_BEAT, body=json.dumps(beat).encode(), language=language)
        yield


def order(number: int, **more: Any) -> dict[str, Any]:
    """Build a message."""
    body = (
        f'{{"order": {{"id": {number}, "lines": [{{"sku": "A-{number % 90}", "count": 2}}]}}, "total": 59.9}}'
    )
    return {"body": body, "keys": [f"order-{number}"], "tag": "created", **more}


async def batch(api: Api, topic: str, messages: list[dict[str, Any]]) -> None:
    """Send the messages in one transaction."""
    await api.ok("POST", f"/v1/topics/{topic}/messages/batch", {"messages": messages})


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    asyncio.run(take(directory))
