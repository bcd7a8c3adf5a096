"""What tests of second directories do again and again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.broker.sending.sender import SendResult
from mocketmq.clock import US_PER_MS
from mocketmq.message.properties import TIMER_DELAY_MS
from mocketmq_compat.delay.directories.delay_directory import FOLDER, QUARANTINE
from mocketmq_compat.delay.stored_scheme import StoredScheme, Tidying
from tests.support.brokers import (
    bodies,
    send,
    visible,
)

MS = US_PER_MS


async def send_in(broker: Broker, delay_ms: int, body: str = "hello", **how: Any) -> SendResult:
    """Send a message that is due so many milliseconds from the emulated now."""
    return await send(broker, body, **{**how, TIMER_DELAY_MS: str(delay_ms)})


def scheme_of(broker: Broker) -> StoredScheme:
    """The scheme behind the broker's interface."""
    scheme = broker.schemes.timed()
    assert isinstance(scheme, StoredScheme)
    return scheme


def names_below(data: Path) -> list[str]:
    """Everything in a broker's delay directory, directories as well."""
    root = data / FOLDER
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def message_files(data: Path) -> list[Path]:
    """The files of messages that wait, in order of their names; not those in the quarantine."""
    return sorted(path for path in (data / FOLDER).rglob("*.msg") if path.parent.name != QUARANTINE)


async def no_removal_left(broker: Broker) -> None:
    """Wait until the files of all that is done with are removed, where the disk lets them be."""
    await scheme_of(broker).marked()


def turn_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let brokers look for foreign files, and try removals again, only when a test calls ``turn``."""

    def start(tidying: Tidying) -> asyncio.Task[object]:
        return asyncio.create_task(tidying._closing.wait())

    monkeypatch.setattr(Tidying, "start", start)


HOUR_MS = 3_600_000
WALL_US = 1_700_000_000_000 * MS
"""Where the wall clock stands for those who need to know."""


async def listed(broker: Broker, **how: Any) -> list[str]:
    return bodies(pending.message for pending in await broker.inspection.pending.list(**how))


async def in_order_of_delivery(broker: Broker) -> list[str]:
    return bodies(await visible(broker))
