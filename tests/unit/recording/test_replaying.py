"""What a replay that is cancelled says of the messages that it was sending."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from mocketmq import Client
from mocketmq.recording.recording import RecordingReader
from mocketmq.recording.replaying import Replaying
from tests.support.patience import HANGING_S


class SlowBroker:
    """Stores messages, but answers only once it may."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def clock(self) -> dict[str, Any]:
        return {"rate": 0, "now_ms": 1_000, "pending": 0}

    async def topic(self, _: str) -> dict[str, Any]:
        return {"queues": [{"queue_id": 0}], "read_queues": 1, "write_queues": 1}

    async def send_batch(self, _: str, messages: Sequence[object]) -> list[dict[str, Any]]:
        self.asked.set()
        await self.may_answer.wait()
        return [{"due_ms": None} for _ in messages]


async def test_messages_in_flight_are_counted_after_ctrl_c(tmp_path: Path) -> None:
    path, broker = tmp_path / "a.jsonl", SlowBroker()
    row = {"sent_at": "2030-01-31T08:00:00.000Z", "topic": "orders", "body": "x"}
    header = {"recording": 1, "source": "test", "queues": {"orders": 1}}
    path.write_text("".join(json.dumps(each) + "\n" for each in (header, row, row, row)))
    recording = RecordingReader(path)
    replaying = Replaying(cast(Client, broker), recording, {}, print, lambda *_: None)
    task = asyncio.create_task(replaying.run(None, hurries=False))
    async with asyncio.timeout(HANGING_S):
        await broker.asked.wait()
        task.cancel()
        await asyncio.sleep(0)
        broker.may_answer.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    recording.close()
    assert replaying.sent == 3
