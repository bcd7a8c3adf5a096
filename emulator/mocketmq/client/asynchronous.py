"""The client for asyncio, on aiohttp."""

from collections.abc import Mapping
from typing import Self

import aiohttp
from yarl import URL

from mocketmq import DEFAULT_URL
from mocketmq.client.answer import RawAnswer
from mocketmq.client.operations import CONNECT_S, Operations

__tracebackhide__ = True
"""pytest shows the line of the test that called, instead of what is here."""


class Client(Operations):
    """A connection to a broker, as an async context manager. Methods raise BrokerError, UnreachableError."""

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
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._silent(error) from None
