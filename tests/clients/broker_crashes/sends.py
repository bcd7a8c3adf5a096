"""What an application sends, by each way and with all settings, and how it ends."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from tests.clients.broker_crashes.clients import DEFAULTS, Client, Settings
from tests.clients.faults.applications import text_of
from tests.clients.faults.play import told
from tests.clients.remoting.driver import ClientError, Driver

ORDERS, PAID = "orders", "paid"
PAYING_GROUP: Final = "GID_paying"
QUEUES: Final = 2
"""Number of queues that each broker has of these topics."""
SENT: Final = "sent"
WITHIN_S: Final = 60.0
"""Time in real seconds after which the page says that something did not happen."""
_ROUND: Final = 8
"""Number of sends after which a client has used all queues."""
_PAUSE_S: Final = 0.2
"""Real time between rounds that fail. Without it, gRPC clients send so much that they are disconnected."""

Send = Callable[[int], Awaitable[str]]
"""Sends the message of this number, and returns ``SENT`` or the error."""


class Way(NamedTuple):
    """A way to send: the table and the row that say what comes of it."""

    situation: str
    settings: str


class Sends:
    """The sends of one application."""

    def __init__(self, client: Client, driver: Driver) -> None:
        self._client = client
        self._driver = driver

    async def plain(self, settings: Settings, body: str) -> str:
        """Send to any queue."""
        return await self._outcome(call="send", topic=ORDERS, body=body, **settings)

    async def in_transaction(self, body: str, **held: str) -> str:
        """Send and commit. With ``held``, the local transaction lasts until this text is released."""
        properties = {"decision": "commit", "later": "commit", **held}
        return await self._outcome(
            call="send_in_transaction", topic=PAID, body=body, group=PAYING_GROUP, properties=properties
        )

    async def begin(self, body: str) -> str:
        """Send in a transaction of gRPC, which remains open."""
        return await self._outcome(call="begin", topic=PAID, body=body)

    async def commit(self) -> str:
        """Commit the transaction that ``begin`` left open."""
        return await self._outcome(call="commit")

    def ways(self) -> Mapping[Way, Send]:
        """Return all ways to send."""
        client = self._client
        found: dict[Way, Send] = {}
        for name, settings in client.sends.items():
            found[Way("sends", name)] = partial(self._numbered, settings)
        for name, settings in client.keyed_sends.items():
            found[Way("keyed sends", name)] = partial(self._keyed, settings)
        if client.has_transactions:
            found[Way("transactions", DEFAULTS)] = lambda number: self.in_transaction(f"paid {number}")
        return found

    async def until_all_work(self) -> dict[Way, float | None]:
        """Send by each way until it works; return the times in real seconds, or None after ``WITHIN_S``."""
        ways = self.ways()
        return dict(zip(ways, await asyncio.gather(*map(_until_works, ways.values())), strict=True))

    async def _numbered(self, settings: Settings, number: int) -> str:
        return await self.plain(settings, f"plain {number}")

    async def _keyed(self, settings: Settings, number: int) -> str:
        return await self._outcome(
            topic=ORDERS, body=f"keyed {number}", **self._client.keyed(number), **settings
        )

    async def _outcome(self, **call: Any) -> str:
        try:
            await self._driver.call(**call)
        except ClientError as error:
            return re.sub(r"broker-[ab]", "broker-…", told(text_of(error)))
        return SENT


async def _until_works(send: Send) -> float | None:
    began = time.monotonic()
    while {await send(number) for number in range(_ROUND)} != {SENT}:
        if time.monotonic() - began > WITHIN_S:
            return None
        await asyncio.sleep(_PAUSE_S)
    return time.monotonic() - began
