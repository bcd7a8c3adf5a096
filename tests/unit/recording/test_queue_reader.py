"""How fast a queue of a real broker is read."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mocketmq.calling.connection import Answer
from mocketmq.recording import queue_reader
from mocketmq.recording.queue_reader import QueueReader
from mocketmq.relay.rocketmq.queue import RemoteQueue
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from tests.support.patience import HANGING_S


class Requests:
    """A connection to a broker with 32 messages, which counts its requests."""

    def __init__(self) -> None:
        self.views = 0

    async def call(self, code: int, *_: object) -> Answer:
        if code == RequestCode.VIEW_MESSAGE_BY_ID:
            self.views += 1
            return Answer(ResponseCode.SUCCESS, {}, b"", "", 0, 0)
        entries = ",".join(f'{{"physicOffset":{at},"physicSize":9}}' for at in range(32))
        return Answer(ResponseCode.SUCCESS, {}, f'{{"queueData":[{entries}]}}'.encode(), "", 0, 0)


async def test_each_message_is_requested_only_once_the_pace_allows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record: Any = SimpleNamespace(queue_offset=0)
    monkeypatch.setattr(queue_reader, "decode_records", lambda _: [record])
    requests, allowed, asked = Requests(), asyncio.Semaphore(0), asyncio.Event()
    waiting = 0

    async def pace() -> None:
        nonlocal waiting
        waiting += 1
        if waiting == 32:
            asked.set()
        await allowed.acquire()

    broker: Any = SimpleNamespace(name="broker-a", requests=requests)
    reader = QueueReader(RemoteQueue(broker, "", "orders", 0), 0)
    reader.goal = reader.end = 32
    head = asyncio.create_task(reader.head(pace))
    async with asyncio.timeout(HANGING_S):
        await asked.wait()
        assert requests.views == 0
        allowed.release()
        while not requests.views:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert requests.views == 1
        for _ in range(31):
            allowed.release()
        assert cast(object, await head) is record
    assert requests.views == 32
