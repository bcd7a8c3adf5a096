"""The broker's events during a test, for the report of a failed one."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final

from mocketmq.client.blocking import BlockingClient
from mocketmq.errors import EmulatorError
from mocketmq.testing.broker import Broker

_LAST: Final = 40
_ANSWER_S: Final = 30.0
"""Real seconds for a broker that may be slow, or hang."""


def of(broker: Broker) -> str:
    """Return a line per event, oldest first, or how the broker died."""
    if broker.process and broker.has_died:
        return f"{broker.process.death}; its last lines:\n{broker.process.last_lines}"
    try:
        with BlockingClient(*broker.login, answer_s=_ANSWER_S) as client:
            events = client.events(max_events=_LAST)
    except EmulatorError as error:
        return str(error)
    lines = [f"{_time(event['at_ms'])} {event['text']}" for event in events]
    return "\n".join(lines) or "the broker recorded no events"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc).isoformat(sep=" ", timespec="milliseconds")[:-6]
