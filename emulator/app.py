"""Builds the parts of the emulator, starts and stops them in order."""

import asyncio
import logging
import platform
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from emulator import __version__
from emulator.broker.broker import Broker
from emulator.broker.groups import Groups
from emulator.broker.lives import Lives
from emulator.broker.pending import PendingMessages
from emulator.broker.polls import Polls
from emulator.broker.pull import Pull
from emulator.broker.receipts import Receipts
from emulator.broker.reset import Reset
from emulator.broker.retention import Retention
from emulator.broker.retries import Retries
from emulator.broker.topics import PERM_READ, PERM_WRITE, Topics, permission_bits
from emulator.clock import Clock, rate_of, start_instant_us, wall_us
from emulator.http_api.server import HttpServer
from emulator.message import SCHEDULE_TOPIC
from emulator.schedule.ledger import Ledger
from emulator.schedule.level_queues import LevelQueues, load_levels
from emulator.schedule.levels import LevelTable
from emulator.schedule.profile import profile_named
from emulator.schedule.timer import Timer
from emulator.settings import Settings
from emulator.store.counters import Run, arrive, begin_run, read_past
from emulator.store.database import MEMORY, Database
from emulator.store.lock import DirectoryLock
from emulator.store.message_keys import MessageKeys
from emulator.store.writer import Writer

log = logging.getLogger(__name__)

SCHEDULE_QUEUES = 18
"""Level queues that exist even when the table is shorter, as upstream."""
STORE_PORT = 10_911
"""The port in message ids: where upstream's broker listens."""


class Emulator:
    """A running emulator. Made by :func:`running_emulator`."""

    def __init__(
        self, settings: Settings, broker: Broker, http: HttpServer, run: int, tasks: list[asyncio.Task[None]]
    ) -> None:
        self.settings = settings
        self.broker = broker
        self.http = http
        self.run = run
        self.tasks = tasks  # in the background, for as long as the emulator runs; one that ends has failed

    @property
    def url(self) -> str:
        """Where the JSON API listens."""
        return self.http.url


@asynccontextmanager
async def running_emulator(settings: Settings) -> AsyncIterator[Emulator]:
    """Start an emulator, and stop it at the end: listeners, timers, last commit, store.

    Raises SettingError, ListenError or a StoreError when it cannot start; nothing is left open then.
    """
    table = LevelTable.parse(settings.levels)
    async with AsyncExitStack() as stack:
        if settings.data != MEMORY:
            stack.callback(DirectoryLock(Path(settings.data)).close)
        database = await Database.open(settings.data, settings.durability)
        stack.push_async_callback(database.close)
        broker, run, tasks = await _build(settings, table, database, stack)
        http = HttpServer(broker, settings, run)
        stack.push_async_callback(http.close)
        await http.start()
        # Long polls end before the listener waits for its handlers.
        stack.callback(broker.polls.close)
        http.is_ready = True
        try:
            yield Emulator(settings, broker, http, run, tasks)
        finally:
            http.is_ready = False


async def _build(
    settings: Settings, table: LevelTable, database: Database, stack: AsyncExitStack
) -> tuple[Broker, int, list[asyncio.Task[None]]]:
    past = await read_past(database)
    started_wall_us = wall_us()
    started_us = start_instant_us(settings.clock, started_wall_us, past.last_us, past.mark)
    clock = Clock(rate_of(settings.clock), started_us)
    writer = Writer(database, clock, f"127.0.0.1:{STORE_PORT}", past.next_commit_offset, past.last_store_us)
    stack.push_async_callback(writer.close)
    run = past.run + 1
    profile = profile_named(settings.profile, started_us)
    await begin_run(
        writer,
        Run(
            run,
            started_wall_us,
            started_us,
            __version__,
            platform.node(),
            profile.name,
            clock.mode,
            table.text,
            settings.durability,
        ),
    )

    topics = Topics(writer, auto_create=settings.auto_create_topics, default_queues=settings.topic_queues)
    await topics.load(database)
    await topics.put(
        SCHEDULE_TOPIC,
        level_queues := max(SCHEDULE_QUEUES, table.highest),
        level_queues,
        PERM_READ | PERM_WRITE,
    )
    for declared in settings.topics:
        await topics.put_by_client(
            declared.name, declared.read_queues, declared.write_queues, permission_bits(declared.perm)
        )
    groups = Groups(writer, auto_create=settings.auto_create_groups)
    await groups.load(database)
    for group in settings.groups:
        await groups.put(group.name, group.max_retries, group.retry_queues)

    timer = Timer(clock)
    ledger = Ledger(run)
    states, warnings = await load_levels(database, table, topics.levels())
    for warning in warnings:
        log.warning(warning)
    levels = LevelQueues(states, table, profile, clock, database, writer, ledger, topics.queue, timer.changed)
    polls = Polls()
    writer.on_arrival(polls.arrived)
    retries = Retries(topics, levels)
    receipts = Receipts(database, writer, clock, topics, groups, polls, ledger, retries, timer.changed)
    await receipts.load()
    await levels.read_ahead()
    timer.add(levels)
    timer.add(receipts)
    keys = MessageKeys(database, writer, past.keys_indexed_to)
    lives = Lives(database, topics, keys)
    retention = Retention(
        database,
        writer,
        topics,
        groups,
        levels,
        age_us=settings.retain_age_us,
        max_bytes=settings.retain_bytes,
    )

    stack.push_async_callback(levels.close)
    stack.push_async_callback(receipts.close)
    stack.push_async_callback(retention.close)
    stack.push_async_callback(keys.close)
    stack.push_async_callback(timer.close)
    tasks = [writer.task, timer.start(), retention.start(), keys.start()]

    broker = Broker(
        clock=clock,
        writer=writer,
        timer=timer,
        topics=topics,
        groups=groups,
        levels=levels,
        polls=polls,
        receipts=receipts,
        pull=Pull(database, writer, topics, groups, polls, ledger),
        pending=PendingMessages(database, clock, timer, topics, levels, lives),
        lives=lives,
        reset=Reset(database, writer, timer, topics, groups, levels),
        arrive=partial(arrive, writer, clock, run),
        max_message_bytes=settings.max_message_bytes,
    )
    return broker, run, tasks
