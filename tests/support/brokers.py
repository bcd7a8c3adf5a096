"""A broker in the test's process, and the steps that most broker tests share."""

import sqlite3
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from mocketmq.app import running_emulator
from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.receiver import InFlightMessage
from mocketmq.broker.consuming.settler import Settled
from mocketmq.broker.filters.filter import SQL92, parse_filter
from mocketmq.broker.sending.sender import SendResult
from mocketmq.clock import US_PER_S
from mocketmq.errors import (
    StoreUnavailableError,
)
from mocketmq.message.message import Message, StoredMessage
from mocketmq.message.properties import (
    DELAY,
    TAGS,
)
from mocketmq.schedule.level_table import LevelTable
from mocketmq.settings import Settings
from mocketmq.store.database import FILE_NAME, MEMORY
from mocketmq.store.message_keys import MessageKeys

S = US_PER_S
DELAYS_US = LevelTable.parse(Settings().levels).delays_us
TOPIC = "orders"
GROUP = "billing"
FREE_PORTS: dict[str, Any] = {"http_port": 0, "namesrv_port": 0, "broker_port": 0, "grpc_port": 0}

# The index writes a transaction each second, which would disturb tests that count, delay or refuse the next.
MessageKeys.interval_s = 3_600.0


@asynccontextmanager
async def running_broker(data: Path | str = MEMORY, **changed: Any) -> AsyncIterator[Broker]:
    """Run a broker with a manual clock, in memory and without remoting unless ``changed`` overrides this."""
    settings = Settings(data=str(data), **{**FREE_PORTS, "remoting": False, "clock": "manual", **changed})
    async with running_emulator(settings) as emulator:
        yield emulator.broker


async def send(
    broker: Broker,
    body: str = "hello",
    *,
    topic: str = TOPIC,
    queue: int | None = None,
    level: int | str | None = None,
    tag: str | None = None,
    **properties: str,
) -> SendResult:
    """Send one message; the other keywords become its properties."""
    given = {DELAY: None if level is None else str(level), TAGS: tag, **properties}
    message = Message(topic, body.encode(), {k: v for k, v in given.items() if v is not None}, queue)
    return await broker.sender.send(message)


async def receive(
    broker: Broker,
    limit: int = 100,
    *,
    group: str = GROUP,
    topic: str = TOPIC,
    invisible_us: int = 30 * S,
    wait_s: float = 0.0,
    tags: str = "*",
    sql: str | None = None,
    ordered: bool = False,
) -> list[InFlightMessage]:
    """Receive up to ``limit`` messages, filtered by ``sql`` if given, otherwise by tags."""
    return await broker.receiver.receive(
        group,
        topic,
        max_messages=limit,
        invisible_us=invisible_us,
        wait_s=wait_s,
        tag_filter=parse_filter(tags) if sql is None else parse_filter(sql, SQL92),
        ordered=ordered,
    )


async def acknowledge(broker: Broker, taken: Iterable[InFlightMessage], group: str = GROUP) -> Settled:
    """Acknowledge these messages."""
    return await broker.settler.acknowledge(group, [one.handle for one in taken])


async def give_back(
    broker: Broker, taken: Iterable[InFlightMessage], delay_level: int = 0, group: str = GROUP
) -> Settled:
    """Return these messages to the broker for redelivery."""
    return await broker.settler.give_back(group, [one.handle for one in taken], delay_level)


async def visible(broker: Broker, topic: str = TOPIC) -> list[StoredMessage]:
    """Return the messages of a topic, oldest first, without consuming them."""
    found = []
    for queue in broker.registry.topics.get(topic).queues:
        pulled = await broker.pull.browse(topic, queue.queue_id, queue.min_offset, 1_000_000)
        found += pulled.messages
    return sorted(found)


async def index_keys(broker: Broker) -> None:
    """Update the key index, so that it writes nothing in the background until the next send."""
    await broker.histories.by_key("none")


def bodies(messages: Iterable[StoredMessage | InFlightMessage]) -> list[str]:
    """Return the bodies as text."""
    return [(m.message if isinstance(m, InFlightMessage) else m).body.decode() for m in messages]


def rows(data: Path, sql: str) -> list[dict[str, Any]]:
    """Return rows of the database file, as another program sees them."""
    with closing(sqlite3.connect(data / FILE_NAME)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(sql)]


class Refusing:
    """Context manager that makes the store refuse writes."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._database = broker.half_messages._database

    async def __aenter__(self) -> None:
        async def refuse(*_: object) -> None:
            raise StoreUnavailableError("no")

        self._monkeypatch.setattr(self._database, "transact", refuse)

    async def __aexit__(self, *_: object) -> None:
        self._monkeypatch.undo()
