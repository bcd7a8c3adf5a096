"""An emulator in the test's process, reached over real sockets."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any, NamedTuple

from aiohttp import ClientSession
from prometheus_client.parser import text_string_to_metric_families
from yarl import URL

from mocketmq.app import Emulator, running_emulator
from mocketmq.broker.packs.pack_file import Pack
from mocketmq.broker.packs.packed_settings import opened_settings
from mocketmq.settings import Settings
from tests.support.brokers import FREE_PORTS

Json = Any
LARGE = 1 << 20


class Answer(NamedTuple):
    """A response; ``body`` is decoded if it is JSON."""

    status: int
    headers: Mapping[str, str]
    body: Json


class Api:
    """A low-level client that sends paths unchanged and returns errors as answers."""

    def __init__(self, emulator: Emulator, session: ClientSession) -> None:
        self.emulator = emulator
        self._session = session

    async def call(self, method: str, path: str, body: Json = None, **more: Any) -> Answer:
        """Send a request, with ``body`` as JSON unless it is bytes."""
        content = json.dumps(body).encode() if body is not None and not isinstance(body, bytes) else body
        # aiohttp warns about large bytes objects.
        data = BytesIO(content) if content and len(content) > LARGE else content
        url = URL(self.emulator.url + path, encoded=True)
        async with self._session.request(method, url, data=data, **more) as response:
            content = await response.read()
            is_json = "json" in response.headers.get("Content-Type", "")
            return Answer(
                response.status, response.headers, json.loads(content) if is_json and content else content
            )

    async def ok(self, method: str, path: str, body: Json = None) -> Json:
        """Send a request that must succeed, and return the body of the answer."""
        answer = await self.call(method, path, body)
        assert answer.status in (200, 201), answer
        return answer.body

    async def refused(self, status: int, method: str, path: str, body: Json = None) -> Json:
        """Send a request that must fail with this status, and return the problem."""
        answer = await self.call(method, path, body)
        assert (answer.status, answer.headers["Content-Type"]) == (status, "application/problem+json"), answer
        assert answer.body["status"] == status
        return answer.body

    async def send(self, topic: str = "orders", body: str = "hello", **fields: Json) -> Json:
        """Send one message."""
        return await self.ok("POST", f"/v1/topics/{topic}/messages", {"body": body, **fields})

    async def receive(self, topic: str = "orders", group: str = "billing", **fields: Json) -> list[Json]:
        """Receive all available messages."""
        given = {"topic": topic, "max": 256, **fields}
        messages: list[Json] = (await self.ok("POST", f"/v1/groups/{group}/receive", given))["messages"]
        return messages


@asynccontextmanager
async def running_api(**changed: Any) -> AsyncIterator[Api]:
    """Run an emulator with a manual clock, by default in memory, and a client of it."""
    settings = Settings(**{**FREE_PORTS, "data": ":memory:", "clock": "manual", **changed})
    async with running_emulator(settings) as emulator, ClientSession() as session:
        yield Api(emulator, session)


@asynccontextmanager
async def opened_api(pack: Pack) -> AsyncIterator[Api]:
    """Run an emulator that begins with a pack, and a client of it."""
    settings = opened_settings(pack.settings, pack.name, 0)
    async with running_emulator(settings, pack) as emulator, ClientSession() as session:
        yield Api(emulator, session)


async def metrics_of(api: Api) -> dict[Any, float]:
    """Return every sample by its name and labels."""
    answer = await api.call("GET", "/metrics")
    return {
        (sample.name.removeprefix("mocketmq_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }
