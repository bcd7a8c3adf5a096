"""The file of a recording: who may write it, and who may read it."""

import stat
import sys
from pathlib import Path

import pytest

from mocketmq.recording.recording import (
    VERSION,
    RecordedMessage,
    RecordingError,
    RecordingHeader,
    RecordingReader,
    RecordingWriter,
)

HEADER = RecordingHeader(recording=VERSION, source="test", queues={})


def message(body: str) -> RecordedMessage:
    return RecordedMessage(sent_at="2030-01-31T08:00:00.000Z", topic="orders", body=body)


def test_only_one_process_writes_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    writer = RecordingWriter.create(path, HEADER)
    writer.write([message("one")])
    for begin in (RecordingWriter.reopen, lambda *_: RecordingReader(path, continues=True)):
        with pytest.raises(RecordingError, match=r"a\.jsonl is being written by another process"):
            begin(path, HEADER)
    writer.close()
    again = RecordingWriter.reopen(path, HEADER)
    with pytest.raises(RecordingError, match="another process"):
        RecordingWriter.reopen(path, HEADER)
    again.write([message("two")])
    again.close()
    reader = RecordingReader(path)
    assert [line.message.body for line in reader] == ["one", "two"]
    reader.close()


def test_a_reader_that_does_not_continue_the_file_gives_the_lock_back(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    RecordingWriter.create(path, HEADER).close()
    with pytest.raises(RecordingError, match="is a recording of test"):
        RecordingWriter.reopen(path, RecordingHeader(recording=VERSION, source="other", queues={}))
    RecordingWriter.reopen(path, HEADER).close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_only_the_owner_can_read_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    RecordingWriter.create(path, HEADER).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
