"""The asyncio client, based on aiohttp."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

try:
    import aiohttp
    from yarl import URL
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "mocketmq.Client needs aiohttp: pip install 'mocketmq-client[aiohttp]'", name="aiohttp"
    ) from None

from mocketmq import DEFAULT_URL
from mocketmq.client.answer import RawAnswer
from mocketmq.client.operations import CONNECT_S, Operations

if TYPE_CHECKING:
    from typing_extensions import Self

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""


class Client(Operations):
    """A client of a broker, as an async context manager. Methods raise BrokerError, UnreachableError."""

    def __init__(self, url: str = DEFAULT_URL, token: str | None = None) -> None:
        super().__init__(url, token)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_S),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> RawAnswer:
        if self._session is None:
            raise RuntimeError("enter the client first: async with Client(…) as broker")
        try:
            async with self._session.request(
                method, URL(self.url + path, encoded=True), data=body, headers=headers
            ) as response:
                return RawAnswer(response.status, response.reason, await response.read())
        except aiohttp.ClientConnectorError:
            raise self._nobody() from None
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise self._silent(error) from None
