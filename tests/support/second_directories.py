"""Helpers for tests of second directories."""

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.broker.sending.sender import SendResult
from mocketmq.clock import US_PER_MS
from mocketmq.message.properties import TIMER_DELAY_MS
from mocketmq_compat.delay.directories.delay_directory import FOLDER
from mocketmq_compat.delay.known_parts import KNOWN
from mocketmq_compat.delay.marks import Tidying
from mocketmq_compat.delay.quarantine import QUARANTINE
from mocketmq_compat.delay.stored_scheme import StoredScheme
from tests.support.brokers import (
    bodies,
    send,
    visible,
)

MS = US_PER_MS


async def send_in(broker: Broker, delay_ms: int, body: str = "hello", **how: Any) -> SendResult:
    """Send a message due ``delay_ms`` from now on the emulated clock."""
    return await send(broker, body, **{**how, TIMER_DELAY_MS: str(delay_ms)})


def scheme_of(broker: Broker) -> StoredScheme:
    """Return the delay scheme behind the broker's interface."""
    scheme = broker.schemes.timed()
    assert isinstance(scheme, StoredScheme)
    return scheme


def names_below(data: Path) -> list[str]:
    """Return the paths of everything in a broker's delay directory, including directories."""
    root = data / FOLDER
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.name != KNOWN)


def message_files(data: Path) -> list[Path]:
    """Return the files of pending messages, sorted by path, without quarantined files."""
    return sorted(path for path in (data / FOLDER).rglob("*.msg") if path.parent.name != QUARANTINE)


async def no_removal_left(broker: Broker) -> None:
    """Wait until the broker has removed the files of settled messages, as far as the disk allows."""
    await scheme_of(broker).marked()


def refuse(*_: object) -> None:
    """Replaces a system call, and fails like a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def turn_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make brokers look for foreign files, and retry removals, only when a test calls ``turn``."""

    def start(tidying: Tidying) -> asyncio.Task[object]:
        return asyncio.create_task(tidying._closing.wait())

    monkeypatch.setattr(Tidying, "start", start)


HOUR_MS = 3_600_000
WALL_US = 1_700_000_000_000 * MS
"""Wall-clock time of tests that depend on the wall clock."""


async def listed(broker: Broker, **how: Any) -> list[str]:
    return bodies(pending.message for pending in await broker.pending.list(**how))


async def in_order_of_delivery(broker: Broker) -> list[str]:
    return bodies(await visible(broker))
