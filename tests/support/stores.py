"""Make stores for reports: a real broker writes one, and tests write others row by row."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from mocketmq.message.names import SCHEDULE_TOPIC, TIMER_TOPIC
from mocketmq.store.database import FILE_NAME
from mocketmq.store.tables import SCHEMA
from tests.support.brokers import S, acknowledge, give_back, receive, running_broker, send
from tests.support.second_directories import send_in

START_US: Final = 1_793_491_200 * S
"""Start of made stores, 2026-11-01 00:00 UTC."""
STORE: Final = "20261101T000000.000000Z"
"""Name of the first run of made stores, which is also the name of the store."""
TIMED: Final = 19
ORDERS: Final = 20
"""Keys of the queue of timed messages and of queue 3 of ``orders``. A level's queue has the level as key."""

_RUN: Final = {
    "started_wall_us": START_US,
    "started_us": START_US,
    "version": "0.1.0",
    "host": "there",
    "profile": "exact",
    "clock": "manual",
    "levels": "1s 5s",
    "durability": "full",
}
_MESSAGE: Final = {
    "queue_key": ORDERS,
    "queue_offset": 0,
    "store_us": START_US + S,
    "born_us": START_US,
    "born_host": "127.0.0.1:1",
    "store_host": "127.0.0.1:10911",
    "flag": 0,
    "sys_flag": 0,
    "body": b"hello",
    "properties": "",
    "tag_hash": 0,
    "reconsume_times": 0,
}
_DELIVERY: Final = {
    "run": 1,
    "topic": "orders",
    "queue_id": 3,
    "queue_offset": 7,
    "scheme": "levels",
    "level": 1,
    "attempt": 1,
    "size": 5,
    "forced": 0,
    "born_us": START_US,
    "stored_us": START_US + S,
    "due_us": START_US + 2 * S,
    "picked_us": START_US + 2 * S + 10,
    "delivered_us": START_US + 2 * S + 30,
}


class MadeStore:
    """A store in ``data`` that a test writes row by row, with one run by default."""

    def __init__(self, data: Path, *, runs: int = 1) -> None:
        self.data = data
        self.database = data / FILE_NAME
        data.mkdir(parents=True, exist_ok=True)
        self.run("PRAGMA journal_mode=WAL")
        with closing(sqlite3.connect(self.database)) as connection:
            connection.executescript(SCHEMA)
        for key in range(1, 19):
            self.put("queues", key=key, topic=SCHEDULE_TOPIC, queue_id=key - 1, min_offset=0, next_offset=0)
        self.put("queues", key=TIMED, topic=TIMER_TOPIC, queue_id=0, min_offset=0, next_offset=0)
        self.put("queues", key=ORDERS, topic="orders", queue_id=3, min_offset=0, next_offset=0)
        for number in range(runs):
            starts = dict.fromkeys(("started_wall_us", "started_us"), START_US + number * 3600 * S)
            self.put("runs", **{**_RUN, "run": number + 1, **starts})

    def run(self, sql: str, *parameters: object) -> None:
        """Run a statement on the database."""
        with closing(sqlite3.connect(self.database, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute(sql, parameters)

    def put(self, table: str, **row: Any) -> None:
        """Insert a row into a table."""
        self.run(f"INSERT INTO {table} ({', '.join(row)}) VALUES (?{', ?' * (len(row) - 1)})", *row.values())

    def park(self, log_offset: int, *, level: int = 1, queue_offset: int = 0, **changed: Any) -> None:
        """Add a message for queue 3 of ``orders`` that is parked in a level."""
        row = {
            "log_offset": log_offset,
            "queue_key": level,
            "queue_offset": queue_offset,
            "unique_key": f"K{log_offset}",
            "due_us": START_US + 2 * S,
            "real_queue_key": ORDERS,
        }
        self.put("messages", **{**_MESSAGE, **row, **changed})

    def deliver(self, delivered_offset: int, parked_offset: int = 0, **changed: Any) -> None:
        """Add a delivery of a parked message."""
        row = {
            "delivered_offset": delivered_offset,
            "parked_offset": parked_offset,
            "unique_key": f"K{parked_offset}",
        }
        self.put("deliveries", **{**_DELIVERY, **row, **changed})

    def intervene(self, parked_offset: int, kind: str = "cancelled", at_us: int = START_US) -> None:
        """Record that a parked message was cancelled or forced."""
        self.put("interventions", parked_offset=parked_offset, kind=kind, at_us=at_us)

    def pass_to(self, level: int, next_offset: int) -> None:
        """Set the delay offset of a level."""
        self.put("delay_offsets", level=level, next_offset=next_offset)

    def settle(self, number: int, key_hash: int, outcome: str, log_offset: int = -1) -> None:
        """Record the outcome of a timed message."""
        row = {"number": number, "key_hash": key_hash, "outcome": outcome, "log_offset": log_offset}
        self.put("timed_messages", due_ms=(START_US + 5 * S) // 1000, **row)


async def leave_store(data: Path) -> dict[str, str]:
    """Run a real broker twice in ``data``, and return the final state of each body.

    Two messages are delivered by level, one of them twice because a consumer returned it. One is delivered at
    its due time and one by hand. Each scheme has a cancelled and a pending message. A redelivery is pending.
    """
    async with running_broker(data) as broker:
        await send(broker, "level", level=1)
        await send(broker, "again", level=1, topic="others")
        cancelled = [await send(broker, "cancelled level", level=5)]
        cancelled += [await send_in(broker, 60_000, "cancelled timed")]
        forced = await send(broker, "forced", level=6)
        await send(broker, "not delayed")
        await send_in(broker, 1_500, "timed")
        await broker.mover.advance(2 * S)
        for each in cancelled:
            await broker.pending.cancel(each.stored.unique_key)
        await broker.pending.deliver_now(forced.stored.unique_key)
        await acknowledge(broker, await receive(broker))
        await give_back(broker, await receive(broker, topic="others"), delay_level=3)
    async with running_broker(data) as broker:
        await broker.mover.advance(20 * S)
        await send(broker, "waiting level", level=18, topic="others")
        await send_in(broker, 3_600_000, "waiting timed")
        await give_back(broker, await receive(broker, topic="%RETRY%billing"), delay_level=4)
    return {
        "level": "delivered",
        "again": "delivered",
        "forced": "delivered",
        "timed": "delivered",
        "cancelled level": "cancelled",
        "cancelled timed": "cancelled",
        "waiting level": "pending",
        "waiting timed": "pending",
    }
