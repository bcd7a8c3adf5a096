"""Helpers of the fault tests: brokers, sends, and reads of the remaining data."""

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest

from mocketmq import BrokerError, Client
from mocketmq.cli.exit_codes import Exit
from mocketmq.client.answer import JsonObject
from mocketmq.store.database import FILE_NAME
from mocketmq.store.lock import LOCK_FILE
from tests.crash.disks import Disk
from tests.support.patience import HANGING_S
from tests.support.process import BrokerProcess, StartError, broker_process, forked_broker

TOPIC = "orders"
GROUP = "shop"
WAL = f"{FILE_NAME}-wal"
FRAME_BYTES = 24 + 4096

WITHOUT_ROOTS_RIGHTS = (
    sys.executable,
    "-c",
    # PR_CAPBSET_DROP of CAP_DAC_OVERRIDE: after the exec, permission bits apply to root too.
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(24, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])",
)
WITHOUT_WRITES = ("/bin/sh", "-c", 'ulimit -f 0; exec "$@"', "sh")


@asynccontextmanager
async def broker(
    data: Path, *args: str, wrapper: tuple[str, ...] = ()
) -> AsyncIterator[tuple[BrokerProcess, Client]]:
    """Run a broker in its own process, and a client of it."""
    options = ("--data", str(data), "--topic-queues", "1", *args)
    running = broker_process(*options, wrapper=wrapper) if wrapper else forked_broker(*options)
    async with running as process, Client(process.url) as client:
        yield process, client


async def send(
    client: Client, *message_ids: str, level: int = 0, delay_ms: int | None = None, size: int = 1_000
) -> None:
    """Send delayed messages, all or none, by a delay level or an absolute due time."""
    delay: JsonObject = {"delay_level": level} if delay_ms is None else {"delay_ms": delay_ms}
    messages = [{"body": "b" * size, "message_id": message_id, **delay} for message_id in message_ids]
    await client.send_batch(TOPIC, messages)


async def delivered(client: Client) -> list[str]:
    """Return the ids of visible messages, in order."""
    ids: list[str] = []
    while page := (await client.browse(TOPIC, 0, offset=len(ids), max_messages=256))["messages"]:
        ids += [message["message_id"] for message in page]
    return ids


async def refusal_to_start(data: Path, *args: str, wrapper: tuple[str, ...] = ()) -> str:
    """Return the output of a broker that fails to start."""
    with pytest.raises(StartError) as error:
        async with broker(data, *args, wrapper=wrapper):
            pass
    assert error.value.returncode == Exit.NOT_STARTED, error.value
    assert "Traceback" not in error.value.stderr
    return error.value.stderr


def contents(directory: Path) -> dict[str, bytes]:
    """Return all files except the lock file."""
    paths = [path for path in directory.rglob("*") if path.is_file() and path.name != LOCK_FILE]
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def assert_refused_by_the_store(error: BrokerError, sentence: str = "the store cannot be written") -> None:
    """Check that the broker refused with 503 and this text, and not because of a defect."""
    assert error.status == 503, error
    assert error.title == "Store unavailable"
    assert sentence in error.detail


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """Make a directory read-only, also for root if the broker was started ``WITHOUT_ROOTS_RIGHTS``."""
    directory.chmod(0o555)
    yield
    directory.chmod(0o755)


async def wait_for_log(process: BrokerProcess, client: Client, sentence: str) -> None:
    """Wait until the broker has written a text to stderr."""
    async with asyncio.timeout(HANGING_S):
        while sentence not in process.stderr:
            await client.wait_delivered(TOPIC, 1_000, wait="20ms")


async def files_removed(client: Client) -> None:
    """Wait until every delayed file is removed. A stopping broker may leave some to its next start."""
    async with asyncio.timeout(HANGING_S):
        while (await client.levels())["timed"]["disk_bytes"]:
            await client.clock()


@asynccontextmanager
async def emptied_log(directory: Path, client: Client) -> AsyncIterator[None]:
    """Keep the log growing from empty, so that writes need the same room on every machine.

    A broker copies its log back in the background, and then writes the log from its start again. Meanwhile
    no other process can copy, so this function retries. A reader keeps the log from being copied.
    """
    with closing(sqlite3.connect(directory / FILE_NAME, isolation_level=None)) as other:
        async with asyncio.timeout(HANGING_S):
            while other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() != (0, 0, 0):
                await client.clock()
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield


Park = Callable[[Client, int, list[str]], Awaitable[None]]
"""``park(client, minute, message_ids)`` sends messages that are due in ``minute`` minutes."""


async def stop_a_move(disk: Disk, then: str, park: Park, count: int, *settings: str, room: int) -> None:
    """Fill the disk except ``room`` bytes; the clock must stop at the last stored delivery without losses."""
    parked = [f"m{number}" for number in range(count)]
    third = count // 3
    manual = ("--clock", "manual", *settings)
    async with broker(disk.directory, *manual) as (process, client):
        for minute in (1, 2, 3):
            await park(client, minute, parked[(minute - 1) * third : minute * third])
        before = await client.clock()
        async with emptied_log(disk.directory, client):
            disk.fill(process, room=room)
            with pytest.raises(BrokerError) as error:
                await client.advance("1h")
        assert_refused_by_the_store(error.value)
        stopped = await client.clock()
        some = await delivered(client)
        assert 0 < len(some) < count
        assert stopped["pending"] == count - len(some)
        assert before["now_ms"] < stopped["now_ms"] <= before["now_ms"] + 180_000
        disk.free(process)
        if then == "kill":
            process.kill()
            await process.wait()
        else:
            assert (await client.advance("1h"))["fired"] == count - len(some)
            assert await delivered(client) == parked
    async with broker(disk.directory, *manual) as (_, client):
        assert (await client.clock())["now_ms"] >= stopped["now_ms"]
        await client.advance("1h")
        assert await delivered(client) == parked
        await files_removed(client)


DELAYS_S = (1, 10, 100)
"""Delays to try; on slow machines, it takes longer to fill the disk before the messages are due."""


async def keep_due_waiting(
    disk: Disk, park: Park, figures: Callable[[JsonObject, int], JsonObject], *settings: str
) -> None:
    """Check that messages which fall due on a full disk are delivered once the disk has room.

    ``park`` counts in ``DELAYS_S`` instead of minutes; ``figures(levels, number)`` concern what it parked.
    """
    sentence = "delivery of due messages failed"
    for number, _ in enumerate(DELAYS_S, 1):
        async with broker(disk.directory, *settings) as (process, client):
            earlier = await delivered(client) if number > 1 else []
            parked = [f"m{number}-{count}" for count in range(20)]
            await park(client, number, parked)
            disk.fill(process)
            found = figures(await client.levels(), number)
            if in_time := (found["pending"], found["oldest_overdue_ms"]) == (20, None):
                await wait_for_log(process, client, sentence)
                found = figures(await client.levels(), number)
                assert (found["pending"], found["oldest_overdue_ms"] is None) == (20, False), found
                assert await delivered(client) == earlier
            disk.free(process)
            assert (await client.wait_delivered(TOPIC, 20 * number, wait="30s"))["reached"]
            assert await delivered(client) == earlier + parked
        if in_time:
            assert process.stderr.count(sentence) == 1
            return
    pytest.fail("the disk was never full before the messages were due")
