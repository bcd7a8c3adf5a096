"""A low-level client of Aliyun's HTTP protocol, and an emulator in the test's process."""

import asyncio
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit
from xml.sax.saxutils import escape

from aiohttp import ClientSession
from yarl import URL

from mocketmq.app import Emulator, running_emulator
from mocketmq.broker.broker import Broker
from mocketmq.settings import Settings
from tests.support.api import LARGE
from tests.support.brokers import FREE_PORTS

Fields = dict[str, str]


class Answer(NamedTuple):
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def root(self) -> ET.Element:
        """Return the root element."""
        return ET.fromstring(self.body)  # noqa: S314 - the emulator's own

    @property
    def fields(self) -> Fields:
        """Return the fields of a document that has one record."""
        return _fields(self.root)

    @property
    def records(self) -> list[Fields]:
        """Return the fields of each record in the document."""
        return [_fields(element) for element in self.root]

    @property
    def error(self) -> tuple[int, str]:
        """Return the status and the code of a single error."""
        assert self.root.tag == "{http://mq.aliyuncs.com/doc/v1}Error", self
        return self.status, self.fields["Code"]


def _fields(element: ET.Element) -> Fields:
    return {child.tag.rpartition("}")[2]: child.text or "" for child in element}


class Aliyun:
    """A client of one topic, for one group."""

    def __init__(self, emulator: Emulator, session: ClientSession) -> None:
        self.emulator = emulator
        self._session = session

    @property
    def broker(self) -> Broker:
        """The broker behind the HTTP endpoint."""
        return self.emulator.broker

    async def call(
        self, method: str, target: str, body: str | bytes = b"", *, url: str = "", **more: Any
    ) -> Answer:
        """Send a request with the target unchanged."""
        content = body.encode() if isinstance(body, str) else body
        data = BytesIO(content) if len(content) > LARGE else content or None  # aiohttp warns of large bytes
        address = URL((url or self.emulator.url) + target, encoded=True)
        async with self._session.request(method, address, data=data, **more) as response:
            return Answer(response.status, response.headers, await response.read())

    async def publish(
        self,
        body: str = "hello",
        tag: str = "",
        *,
        topic: str = "orders",
        query: str = "",
        **properties: object,
    ) -> Answer:
        """Publish a message, and return the answer even if it is an error."""
        pairs = "".join(f"{name}:{value}|" for name, value in properties.items())
        leaves = {"MessageBody": body, "MessageTag": tag, "Properties": pairs}
        inside = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in leaves.items() if text)
        return await self.call("POST", f"/topics/{topic}/messages{query}", f"<Message>{inside}</Message>")

    async def published(self, *args: Any, **more: Any) -> Fields:
        """Publish a message, which must succeed, and return the fields of the answer."""
        answer = await self.publish(*args, **more)
        assert answer.status == 201, answer
        return answer.fields

    async def consume(
        self, limit: int = 16, *, topic: str = "orders", group: str = "GID_a", **parameters: object
    ) -> list[Fields]:
        """Receive messages; returns an empty list if there are none."""
        query = urlencode({"consumer": group, "numOfMessages": limit, **parameters})
        answer = await self.call("GET", f"/topics/{topic}/messages?{query}")
        if answer.status == 404 and answer.error == (404, "MessageNotExist"):
            return []
        assert answer.status == 200, answer
        return answer.records

    async def bodies(self, *args: Any, **more: Any) -> list[str]:
        """Receive messages, and return their bodies."""
        return [message["MessageBody"] for message in await self.consume(*args, **more)]

    async def settle(
        self, handles: Sequence[str], *, topic: str = "orders", group: str = "GID_a", **parameters: str
    ) -> Answer:
        """Acknowledge messages, or decide half messages if ``trans`` is given."""
        inside = "".join(f"<ReceiptHandle>{escape(handle)}</ReceiptHandle>" for handle in handles)
        target = f"/topics/{topic}/messages?{urlencode({'consumer': group, **parameters})}"
        return await self.call("DELETE", target, f"<ReceiptHandles>{inside}</ReceiptHandles>")

    async def failures(self, handles: Sequence[str], **more: str) -> dict[str, str]:
        """Return the refused handles, each with its error code."""
        answer = await self.settle(handles, **more)
        if answer.status == 204:
            return {}
        assert (answer.status, answer.root.tag) == (404, "{http://mq.aliyuncs.com/doc/v1}Errors"), answer
        assert all(list(one) == ["ErrorCode", "ErrorMessage", "ReceiptHandle"] for one in answer.records)
        return {one["ReceiptHandle"]: one["ErrorCode"] for one in answer.records}

    async def open(self, url: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a raw connection."""
        address = urlsplit(url or self.emulator.url)
        return await asyncio.open_connection(address.hostname, address.port)


@asynccontextmanager
async def running_aliyun(**changed: Any) -> AsyncIterator[Aliyun]:
    """Run an emulator with a manual clock, by default in memory, and a client of it."""
    settings = Settings(**{**FREE_PORTS, "data": ":memory:", "clock": "manual", **changed})
    async with running_emulator(settings) as emulator, ClientSession() as session:
        yield Aliyun(emulator, session)
