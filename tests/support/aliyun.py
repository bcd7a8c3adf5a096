"""A client of Aliyun's HTTP protocol that hides nothing, and an emulator in the test's own process for it."""

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

from mocketmq.app import running_emulator
from mocketmq.broker.broker import Broker
from mocketmq.emulator import Emulator
from mocketmq.settings import Settings
from tests.support.api import LARGE
from tests.support.brokers import FREE_PORTS

Fields = dict[str, str]


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def root(self) -> ET.Element:
        """The document."""
        return ET.fromstring(self.body)  # noqa: S314 - the emulator's own

    @property
    def fields(self) -> Fields:
        """The leaves of a document of one."""
        return _fields(self.root)

    @property
    def records(self) -> list[Fields]:
        """The leaves of a document of many."""
        return [_fields(element) for element in self.root]

    @property
    def error(self) -> tuple[int, str]:
        """Status and code of a single error."""
        assert self.root.tag == "{http://mq.aliyuncs.com/doc/v1}Error", self
        return self.status, self.fields["Code"]


def _fields(element: ET.Element) -> Fields:
    return {child.tag.rpartition("}")[2]: child.text or "" for child in element}


class Aliyun:
    """Speaks to one topic of an emulator in the name of one group."""

    def __init__(self, emulator: Emulator, session: ClientSession) -> None:
        self.emulator = emulator
        self._session = session

    @property
    def broker(self) -> Broker:
        """The broker behind the door."""
        return self.emulator.broker

    async def call(
        self, method: str, target: str, body: str | bytes = b"", *, url: str = "", **more: Any
    ) -> Answer:
        """Send a request; the target goes out as it is."""
        content = body.encode() if isinstance(body, str) else body
        data = BytesIO(content) if len(content) > LARGE else content or None  # aiohttp warns of much at once
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
        """Publish a message, successful or not."""
        pairs = "".join(f"{name}:{value}|" for name, value in properties.items())
        leaves = {"MessageBody": body, "MessageTag": tag, "Properties": pairs}
        inside = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in leaves.items() if text)
        return await self.call("POST", f"/topics/{topic}/messages{query}", f"<Message>{inside}</Message>")

    async def published(self, *args: Any, **more: Any) -> Fields:
        """What is told of a message that must be accepted."""
        answer = await self.publish(*args, **more)
        assert answer.status == 201, answer
        return answer.fields

    async def consume(
        self, limit: int = 16, *, topic: str = "orders", group: str = "GID_a", **parameters: object
    ) -> list[Fields]:
        """Take messages; none when there is none."""
        query = urlencode({"consumer": group, "numOfMessages": limit, **parameters})
        answer = await self.call("GET", f"/topics/{topic}/messages?{query}")
        if answer.status == 404 and answer.error == (404, "MessageNotExist"):
            return []
        assert answer.status == 200, answer
        return answer.records

    async def bodies(self, *args: Any, **more: Any) -> list[str]:
        """Take messages, and tell their bodies."""
        return [message["MessageBody"] for message in await self.consume(*args, **more)]

    async def settle(
        self, handles: Sequence[str], *, topic: str = "orders", group: str = "GID_a", **parameters: str
    ) -> Answer:
        """Acknowledge, or with ``trans``, decide."""
        inside = "".join(f"<ReceiptHandle>{escape(handle)}</ReceiptHandle>" for handle in handles)
        target = f"/topics/{topic}/messages?{urlencode({'consumer': group, **parameters})}"
        return await self.call("DELETE", target, f"<ReceiptHandles>{inside}</ReceiptHandles>")

    async def failures(self, handles: Sequence[str], **more: str) -> dict[str, str]:
        """The handles that could not be settled, and the code of each."""
        answer = await self.settle(handles, **more)
        if answer.status == 204:
            return {}
        assert (answer.status, answer.root.tag) == (404, "{http://mq.aliyuncs.com/doc/v1}Errors"), answer
        assert all(list(one) == ["ErrorCode", "ErrorMessage", "ReceiptHandle"] for one in answer.records)
        return {one["ReceiptHandle"]: one["ErrorCode"] for one in answer.records}

    async def open(self, url: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A bare connection."""
        address = urlsplit(url or self.emulator.url)
        return await asyncio.open_connection(address.hostname, address.port)


@asynccontextmanager
async def running_aliyun(**changed: Any) -> AsyncIterator[Aliyun]:
    """An emulator with a manual clock, in memory unless told otherwise, and a client of it."""
    settings = Settings(**{**FREE_PORTS, "data": ":memory:", "clock": "manual", **changed})
    async with running_emulator(settings) as emulator, ClientSession() as session:
        yield Aliyun(emulator, session)
