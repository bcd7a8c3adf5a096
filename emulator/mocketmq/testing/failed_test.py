"""Fails a test for leaks, and adds the broker's events and a pack of its state to a failed test."""

from __future__ import annotations

import hashlib
import re
import shlex
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from mocketmq.client.blocking import BlockingClient
from mocketmq.errors import EmulatorError
from mocketmq.testing.broker import Broker

_LAST_EVENTS: Final = 40
_STORY_S: Final = 30.0
"""Time limit in real seconds, because the broker may be slow or hang."""
_COMMIT: Final = "6s"
"""Real time to wait for running consumers: clients commit their offsets every five seconds."""
_LONGEST_NAME: Final = 80
_PACK_S: Final = 60.0
"""Time limit in real seconds, because the broker may be slow or hang."""


def reason_to_fail(broker: Broker, *, is_strict: bool) -> str:
    """Return the reason why the test fails; empty if it passes."""
    if broker.process and broker.has_died:
        return f"{broker.process.death} in this test; its last lines:\n{broker.process.last_lines}"
    if not is_strict or not (found := broker.leaks(wait=_COMMIT)):
        return ""
    return "\n  ".join(
        ["the test left messages that were not acknowledged:", *(leak["text"] for leak in found)]
    )


def story_of(broker: Broker) -> str:
    """Return a line for each event, oldest first, or a text on how the broker died."""
    if broker.process and broker.has_died:
        return f"{broker.process.death}; its last lines:\n{broker.process.last_lines}"
    try:
        with BlockingClient(*broker.login, answer_s=_STORY_S) as client:
            events = client.events(max_events=_LAST_EVENTS)
    except EmulatorError as error:
        return str(error)
    lines = [f"{_time(event['at_ms'])} {event['text']}" for event in events]
    return "\n".join(lines) or "the broker recorded no events"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc).isoformat(sep=" ", timespec="milliseconds")[:-6]


def pack_failure(broker: Broker, folder: Path, test: str, failure: str) -> str:
    """Pack the broker's state at the failure of the test. Return where the pack is, or why there is none."""
    if broker.process and broker.has_died:
        return f"no pack: {broker.process.death}"
    file = folder / _file_name(test)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with BlockingClient(*broker.login, answer_s=_PACK_S) as client:
            client.pack(file, test=test, failure=failure)
    except (EmulatorError, OSError) as error:
        return f"no pack: {error}"
    return f"packed; look at it with: mocketmq open {shlex.quote(str(file))}"


def _file_name(test: str) -> str:
    """Make a file name from the end of the test's id, and a digest that makes the name unique."""
    shown = re.sub(r"[^A-Za-z0-9._-]+", "-", test.rpartition("::")[2])[:_LONGEST_NAME].strip("-.")
    return f"{shown}-{hashlib.sha256(test.encode()).hexdigest()[:8]}.mocketmq"
