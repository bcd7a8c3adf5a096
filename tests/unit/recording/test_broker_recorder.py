"""What a broker records of its own sends, and what recording never does to it."""

import json
import logging
import threading
import zlib
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.message.body import COMPRESSED_FLAG
from mocketmq.message.message import Message
from mocketmq.message.names import TRACE_TOPIC
from mocketmq.recording.broker_recorder import BrokerRecorder
from mocketmq.recording.masks import Masks
from mocketmq.recording.recording import RecordedMessage, RecordingReader, RecordingWriter
from tests.support.brokers import TOPIC, bodies, running_broker, send, visible


@asynccontextmanager
async def recorder_of(broker: Broker, path: Path) -> AsyncIterator[BrokerRecorder]:
    """Record the broker's sends until the end of the block."""
    recorder = BrokerRecorder(path, broker.registry.topics, Masks((), b""))
    broker.sender.intake.on_sent = recorder.note
    yield recorder
    await recorder.close()


def rows(path: Path) -> list[dict[str, Any]]:
    """The messages of the recording whose lines are whole, while the thread may write the next."""
    lines = path.read_text().splitlines(keepends=True)[1:]
    return [json.loads(line) for line in lines if line.endswith("\n")]


async def test_bodies_stay_as_compressed_as_they_were_sent(tmp_path: Path) -> None:
    path, packed = tmp_path / "a.jsonl", zlib.compress(b"a" * (2 << 20))
    async with running_broker() as broker, recorder_of(broker, path):
        await broker.sender.send(Message(TOPIC, packed, {}, sys_flag=COMPRESSED_FLAG))
        await send(broker, "plain")
    assert path.stat().st_size < 2 * len(packed) + 1_000
    assert [(each.get("compression"), each.get("body")) for each in rows(path)] == [
        ("zlib", None),
        (None, "plain"),
    ]
    reader = RecordingReader(path)
    assert next(iter(reader)).message.body_base64 == packed
    reader.close()


async def test_lines_are_written_in_a_thread_and_memory_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, slow, threads = tmp_path / "a.jsonl", threading.Event(), set[int]()
    write = RecordingWriter.write

    def slowly(writer: RecordingWriter, messages: Iterable[RecordedMessage]) -> None:
        threads.add(threading.get_ident())
        slow.wait()
        write(writer, messages)

    monkeypatch.setattr(RecordingWriter, "write", slowly)
    async with running_broker() as broker, recorder_of(broker, path):
        for _ in range(3):  # the third one fills a batch; the thread begins to write it
            await send(broker, "x" * (3 << 20))
        assert not rows(path)
        for _ in range(2):
            await send(broker, "y" * (3 << 20))
        threading.Timer(0.05, slow.set).start()
        await send(broker, "z" * (3 << 20))  # waits until the first batch is in the file
        assert len(rows(path)) >= 3
    assert [each["body"][0] for each in rows(path)] == ["x", "x", "x", "y", "y", "z"]
    assert threading.get_ident() not in threads


async def test_retries_and_system_topics_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    async with running_broker() as broker, recorder_of(broker, path):
        await send(broker, "trace", topic=TRACE_TOPIC)
        await send(broker, "retry", topic="%RETRY%billing")
        await send(broker, "plain")
    assert [each["body"] for each in rows(path)] == ["plain"]


async def test_a_failure_of_the_recorder_fails_no_send(caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> None:
        raise ValueError("no disk")

    async with running_broker() as broker:
        broker.sender.intake.on_sent = broken
        with caplog.at_level(logging.ERROR):
            await send(broker, "one")
            await send(broker, "two")
        assert bodies(await visible(broker, TOPIC)) == ["one", "two"]
    assert [record.message for record in caplog.records] == [
        "bug in mocketmq: the listener for sent messages failed, and is not called again"
    ]
