"""Stores, delivers and counts delayed messages for the crash tests."""

from pathlib import Path

from mocketmq.broker.broker import Broker
from mocketmq.clock import US_PER_MS
from mocketmq.message.message import Message
from mocketmq.message.properties import TIMER_DELAY_MS, UNIQ_KEY
from mocketmq_compat.delay.quarantine import QUARANTINE
from mocketmq_compat.delay.stored_scheme import StoredScheme
from tests.crash.faults import (
    TOPIC,
)
from tests.support.brokers import visible

BLOCK = 4_096
HOUR_MS = 3_600_000
HOUR_US = HOUR_MS * US_PER_MS


def timed_of(running: Broker) -> StoredScheme:
    """Return the second directories of a broker in this process."""
    scheme = running.schemes.timed()
    assert isinstance(scheme, StoredScheme)
    return scheme


async def keep(running: Broker, message_id: str, delay_ms: int) -> None:
    message = Message(TOPIC, b"b", {UNIQ_KEY: message_id, TIMER_DELAY_MS: str(delay_ms)})
    await running.sender.send(message)


async def come(running: Broker, after_us: int = 0) -> list[str]:
    """Move the clock by ``after_us``, and return the visible messages in order."""
    await running.mover.advance(after_us)
    await timed_of(running).marked()
    return [m.unique_key for m in await visible(running)] if running.registry.topics.find_topic(TOPIC) else []


def reasons(data: Path) -> dict[str, str]:
    """Return the reason for each quarantined file."""
    bad = data / "delay" / QUARANTINE
    names = [path.name for path in bad.glob("*") if path.suffix != ".reason"]
    return {name: (bad / f"{name}.reason").read_text() for name in names}
