"""What the broker saw in a test, for the report of one that failed."""

from datetime import UTC, datetime
from typing import Final

from mocketmq.client.blocking import BlockingClient
from mocketmq.errors import EmulatorError
from mocketmq.testing.broker import Broker

_LAST: Final = 40
_ANSWER_S: Final = 30.0
"""Real seconds for a broker that may be slow, or hang."""


def of(broker: Broker) -> str:
    """A line for each event, by the broker's clock, the newest last; or how the broker died."""
    if broker.process and broker.has_died:
        return f"{broker.process.death}; its last lines:\n{broker.process.last_lines}"
    try:
        with BlockingClient(broker.url, broker.token, answer_s=_ANSWER_S) as client:
            events = client.events(max_events=_LAST)
    except EmulatorError as error:
        return str(error)
    lines = [f"{_time(event['at_ms'])} {event['text']}" for event in events]
    return "\n".join(lines) or "the broker saw nothing"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")[:-6]
