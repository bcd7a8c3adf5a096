"""A data directory that outlives its brokers, and the checks after each kill."""

import asyncio
import itertools
import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from mocketmq import Client, UnreachableError
from mocketmq.client.answer import JsonObject
from mocketmq.failpoint import ENVIRONMENT
from mocketmq.settings import TimedSchemeName
from mocketmq.store.database import FILE_NAME
from mocketmq_compat.delay.delayed_file import DamagedFileError, decode, parse_name
from mocketmq_compat.delay.inspection import UNFINISHED, FolderProblem, KeptMessage
from mocketmq_compat.delay.known_parts import KNOWN
from mocketmq_compat.delay.schemes import DEFAULT, SCHEMES
from tests.crash.faults import files_removed
from tests.crash.judge import Copy, Judge, Record
from tests.crash.load import GROUP, INVISIBLE, TOPIC, Load
from tests.crash.order import OrderJudge
from tests.crash.ordered_load import DEAD_LETTERS, OrderedLoad
from tests.crash.ordered_load import GROUP as IN_ORDER
from tests.crash.power import NOTES
from tests.support.grpc import grpc_client
from tests.support.patience import HANGING_S
from tests.support.process import BrokerProcess, StartError, forked_broker

RETRY_TOPIC = f"%RETRY%{GROUP}"
CONFIG = f"""
[[groups]]
name = "{GROUP}"
max_retries = 1000

[[groups]]
name = "{IN_ORDER}"
fifo = true
max_retries = 1000
"""

_VISIBLE = """
SELECT topic, queue_id, log_offset, unique_key, reconsume_times, store_us
FROM messages JOIN queues ON key = queue_key WHERE due_us IS NULL ORDER BY queue_key, queue_offset"""
_DONE = """
SELECT parked_offset, delivered_offset, iif(forced, 'forced', 'delivered')
FROM deliveries WHERE level IS NULL AND fault IS NULL AND scheme <> 'held'"""
"""Timed messages that were not held while their broker was down."""
_HELD = """
SELECT messages.parked_offset FROM messages JOIN deliveries ON delivered_offset = log_offset
WHERE messages.parked_offset NOT NULL AND (fault NOT NULL OR scheme = 'held')"""
"""Records of held messages, of which copies were delivered."""
_LEDGER = {
    "delivered early": """
        SELECT * FROM deliveries WHERE (delivered_us < due_us OR picked_us < due_us) AND NOT forced""",
    "delivered twice": """
        SELECT parked_offset, count(*) FROM deliveries WHERE level NOT NULL GROUP BY 1 HAVING count(*) > 1""",
    "delivered twice from a file": """
        SELECT parked_offset, count(*) FROM deliveries WHERE level IS NULL GROUP BY 1 HAVING count(*) > 1""",
    "never delivered": f"""
        SELECT log_offset FROM messages WHERE due_us NOT NULL
        AND log_offset NOT IN (SELECT parked_offset FROM deliveries) AND log_offset NOT IN ({_HELD})
        AND log_offset NOT IN (SELECT parked_offset FROM interventions WHERE kind = 'cancelled')""",
    "not known as done with": f"""
        {_DONE} EXCEPT SELECT number, log_offset, outcome FROM timed_messages""",
    "done with, but neither delivered nor cancelled": f"""
        SELECT number, log_offset, outcome FROM timed_messages WHERE log_offset NOT IN ({_HELD})
        AND log_offset NOT IN (SELECT parked_offset FROM interventions WHERE kind = 'cancelled')
        EXCEPT {_DONE}""",
    "without its message": """
        SELECT * FROM deliveries WHERE delivered_offset NOT IN (SELECT log_offset FROM messages)""",
    "missing or wrong": """
        SELECT * FROM messages LEFT JOIN deliveries ON delivered_offset = log_offset
        WHERE messages.parked_offset NOT NULL AND (delivered_us IS NOT store_us
        OR deliveries.parked_offset <> messages.parked_offset AND fault IS NULL)""",
}
"""Queries that are empty for a correct ledger."""


class Variant(NamedTuple):
    """Start options of a survivor's brokers."""

    clock: str
    profile: str
    delays_s: list[int]
    durability: str = "full"
    delay_sync: str = "always"
    start_deliver_time: str = "aliyun4"
    timed_scheme: TimedSchemeName = "directories"
    brokers: int = 1

    @property
    def arguments(self) -> list[str]:
        """Return the arguments of ``mocketmq serve``."""
        levels = " ".join(f"{delay}s" for delay in self.delays_s)
        return [
            *("--clock", self.clock, "--profile", self.profile, "--levels", levels),
            *("--durability", self.durability, "--delay-sync", self.delay_sync),
            *("--start-deliver-time", self.start_deliver_time, "--timed-scheme", self.timed_scheme),
            *("--brokers", str(self.brokers), "--slaves", str(int(self.brokers > 1))),
        ]


class Survivor:
    """A store and its judge. Each broker on the store must behave as if no broker had been killed before."""

    def __init__(self, directory: Path, variant: Variant) -> None:
        self.judge = Judge(
            may_repeat=variant.profile == "rocketmq4", whole_seconds=variant.start_deliver_time == "dongwo"
        )
        self.order = OrderJudge()
        self.data = directory / "data"
        self._is_manual = variant.clock == "manual"
        self.variant = variant
        self.notes: Path | None = None  # notes of its brokers' syncs, which a power cut needs
        self.may_put_aside = False  # parts of records that were not synced
        self._config = directory / "mocketmq.toml"
        self._config.write_text(CONFIG)

    @asynccontextmanager
    async def broker(self, failpoint: str = "") -> AsyncIterator[tuple[BrokerProcess, Client]]:
        """Run a broker on the store that may be killed. Raises StartError."""
        settings = ["--config", str(self._config), "--data", str(self.data), *self.variant.arguments]
        environment = {ENVIRONMENT: failpoint} | ({NOTES: str(self.notes)} if self.notes else {})
        async with (
            forked_broker(*settings, env=environment) as process,
            Client(process.url) as client,
        ):
            yield process, client

    async def run_until_killed(
        self,
        random: Random,
        *,
        failpoint: str = "",
        after_s: float | None = None,
        after_acts: int | None = None,
    ) -> None:
        """Run a load until the broker dies at the point, or is killed.

        This is some seconds after its start, or shortly after a number of acts of its clients.
        """
        try:
            async with asyncio.timeout(HANGING_S), self.broker(failpoint) as (process, client):
                if after_s is not None:
                    asyncio.get_running_loop().call_later(after_s, process.kill)
                acts = itertools.count(1)

                def act_done() -> None:
                    if next(acts) == after_acts:
                        asyncio.get_running_loop().call_later(random.uniform(0, 0.01), process.kill)

                with suppress(UnreachableError):
                    await self._look(client)
                variant, moves = self.variant, self._is_manual
                load = Load(
                    *(client, self.judge, random, variant.delays_s),
                    moves=moves,
                    brokers=variant.brokers,
                    on_act=act_done,
                )
                async with self._in_order(process, random, act_done) as ordered, asyncio.TaskGroup() as loads:
                    loads.create_task(load.run())
                    if ordered is not None:
                        loads.create_task(ordered.run())
                assert await process.wait() == -signal.SIGKILL, process.stderr
        except StartError as error:
            assert error.returncode == -signal.SIGKILL, error.stderr
        faults = [*faults_of_files(self.data)]
        assert not faults, "\n".join(faults)

    @asynccontextmanager
    async def _in_order(
        self, process: BrokerProcess, random: Random, on_act: Callable[[], None] = lambda: None
    ) -> AsyncIterator[OrderedLoad | None]:
        """The consumers in order, which a cluster has."""
        if self.variant.brokers == 1:
            yield None
            return
        async with grpc_client(int(process.grpc.rpartition(":")[2])) as client:
            yield OrderedLoad(client, self.judge, self.order, random, self.variant.brokers, on_act)

    async def kill_while_starting(self, after_s: float) -> None:
        """Start a broker, and kill it some seconds later unless it has started by then."""
        with suppress(TimeoutError):
            async with asyncio.timeout(after_s), self.broker():
                pass

    async def recover(self) -> None:
        """Restart, wait for every promised delivery, stop cleanly, and judge."""
        async with asyncio.timeout(HANGING_S), self.broker() as (process, client):
            await self._look(client)
            await self._drain(client)
            async with self._in_order(process, Random()) as ordered:
                if ordered is not None:
                    await ordered.drain()
            await self._look(client)
            if self.variant.timed_scheme in ("directories", "wheel"):
                await files_removed(client)
        faults = [
            *self.judge.verdict(),
            *self._order_verdict(),
            *faults_of_store(self.data / FILE_NAME, self.judge),
            *(f"{path} is still there" for path in delayed_files(self.data)),
            *(f"{each} is still there" for each in other_messages(self.data)),
        ]
        assert not faults, "\n".join(faults)

    def _order_verdict(self) -> list[str]:
        """Return the faults of consumption in order, where there was any."""
        if self.variant.brokers == 1:
            return []
        held = self.judge.records.items()
        ends = {queue: len(records) for (topic, queue), records in held if topic == TOPIC}
        dead = [each.copy.message_id for (topic, _), some in held if topic == DEAD_LETTERS for each in some]
        return self.order.verdict(ends, dead)

    async def _look(self, client: Client) -> None:
        """Show the judge the clock, and the messages in queues that are new to it."""
        self.judge.clock_is((await client.clock())["now_ms"])
        for topic in await client.topics():
            if topic["name"] not in (TOPIC, RETRY_TOPIC, DEAD_LETTERS):
                continue
            for queue in topic["queues"]:
                seen = self.judge.records.get((topic["name"], queue["queue_id"]), [])
                while len(seen) < queue["max_offset"]:
                    page = await client.browse(
                        topic["name"], queue["queue_id"], offset=len(seen), max_messages=256
                    )
                    assert page["messages"], page
                    self.judge.browsed(topic["name"], queue["queue_id"], page["messages"])
                    seen = self.judge.records[topic["name"], queue["queue_id"]]

    async def _drain(self, client: Client) -> None:
        """Wait for pending messages, by moving a manual clock, and expire receipts by a move."""
        while not self._is_manual and is_waiting(await client.levels()):
            await self._consume(client, wait="100ms")
        self.judge.saw_clock((await client.advance("13h"))["now_ms"])
        await self._consume(client)
        levels = await client.levels()
        assert not is_waiting(levels)
        assert self.may_put_aside or not levels["timed"]["quarantined"]

    async def _consume(self, client: Client, wait: str = "0") -> None:
        while messages := await client.receive(
            TOPIC, group=GROUP, max_messages=256, wait=wait, invisible=INVISIBLE
        ):
            self.judge.received(messages)
            self.judge.acking(messages)
            await client.acknowledge(GROUP, messages)
            self.judge.acknowledged(messages)


def is_waiting(levels: JsonObject) -> bool:
    """Whether any message is pending."""
    return any(scheme["pending"] for scheme in (*levels["levels"], levels["timed"]))


def delayed_files(data: Path) -> list[Path]:
    """Return all messages' files below the delay directory, even while a broker removes some."""
    found = [Path(folder) / name for folder, _, names in os.walk(data / "delay") for name in names]
    return [path for path in found if path.name != KNOWN]


def other_messages(data: Path) -> list[KeptMessage | FolderProblem]:
    """Return pending messages of schemes other than second directories."""
    folders = [(place, data / place.folder) for name, place in SCHEMES.items() if name != DEFAULT]
    return [
        each
        for place, folder in folders
        if folder.is_dir()
        for each in place.read_messages(folder, lambda *_: None)
    ]


def faults_of_files(data: Path) -> Iterator[str]:
    """Return defects in files of delayed messages after a kill; files under final names must be complete."""
    yield from (
        f"{each.file} is damaged: {each.reason}"
        for each in other_messages(data)
        if isinstance(each, FolderProblem) and each.kind != UNFINISHED
    )
    for path in delayed_files(data):
        entry = parse_name(path.name.removesuffix(".tmp"))
        if entry is None or path.parent.name != str(entry.second):
            yield f"{path} does not belong there"
        elif path.suffix == ".msg":
            try:
                found = decode(path.read_bytes()).header.entry
            except DamagedFileError as error:
                yield f"{path} is damaged: {error}"
            else:
                if found != entry:
                    yield f"{path} is {found.name}"


def faults_of_store(file: Path, judge: Judge) -> Iterator[str]:
    """Return defects in the database of a stopped broker without pending messages."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:

        def rows(sql: str) -> list[Any]:
            return database.execute(sql).fetchall()

        for (finding,) in rows("PRAGMA integrity_check"):
            if finding != "ok":
                yield f"integrity check: {finding}"
        stored: dict[tuple[str, int], list[Record]] = {}
        for topic, queue_id, log_offset, unique_key, reconsume_times, store_us in rows(_VISIBLE):
            record = Record(log_offset, Copy(unique_key, reconsume_times + 1), store_us // 1_000)
            stored.setdefault((topic, queue_id), []).append(record)
        if stored != {place: records for place, records in judge.records.items() if records}:
            yield "the queues do not hold what they showed"
        for check, sql in _LEDGER.items():
            if check == "delivered twice" and judge.may_repeat:
                continue
            for row in rows(sql):
                yield f"ledger, {check}: {row}"
        noted = {row[0] for row in rows("SELECT delivered_offset FROM deliveries WHERE acked_us NOT NULL")}
        delayed = {row[0] for row in rows("SELECT delivered_offset FROM deliveries")}
        for offset in sorted((judge.acked & delayed) - noted):
            yield f"ledger, acknowledgement missing: {offset}"
