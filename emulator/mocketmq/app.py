"""Builds the parts of the emulator, starts and stops them in order."""

import asyncio
import logging
import platform
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from mocketmq_compat import address_discovery
from mocketmq_compat.aliyun_http import door as aliyun_http
from mocketmq_compat.delay.delay_directory import FOLDER, DelayDirectory
from mocketmq_compat.delay.dongwo import Dongwo, Scans
from mocketmq_compat.delay.memory_directory import MemoryDirectory
from mocketmq_compat.delay.second_directories import SecondDirectories, exact
from mocketmq_compat.delay.start_deliver_time import StartDeliverTime

from mocketmq import __version__
from mocketmq.access.access import Access, access_of
from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.offsets import Offsets
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.consuming.pops import Pops
from mocketmq.broker.consuming.pull import Pull
from mocketmq.broker.consuming.queue_locks import QueueLocks
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.consuming.retries import Retries
from mocketmq.broker.consuming.takes import Takes
from mocketmq.broker.looking.history import Lives
from mocketmq.broker.looking.pending import PendingMessages
from mocketmq.broker.looking.progress import Progress
from mocketmq.broker.registry.clients import Clients
from mocketmq.broker.registry.groups import Groups
from mocketmq.broker.registry.name_server import NameServer
from mocketmq.broker.registry.request_modes import RequestModes
from mocketmq.broker.registry.statistics import Statistics
from mocketmq.broker.registry.topics import PERM_READ, PERM_WRITE, Topics, permission_bits
from mocketmq.broker.sending.intake import Intake
from mocketmq.broker.transactions.check_backs import CheckBacks
from mocketmq.broker.transactions.half_messages import Transactions
from mocketmq.broker.transactions.popped_halves import PoppedHalves
from mocketmq.broker.upkeep.reset import Reset
from mocketmq.broker.upkeep.retention import Retention
from mocketmq.clock import Clock, rate_of, start_instant_us, wall_us
from mocketmq.errors import StoreUnavailableError
from mocketmq.http_api.door import Door, Listener
from mocketmq.http_api.server import HttpServer
from mocketmq.message.names import SCHEDULE_TOPIC, TIMER_TOPIC
from mocketmq.remoting.listening.server import RemotingServer
from mocketmq.schedule.ledger import Ledger
from mocketmq.schedule.level_queues import LevelQueues, load_levels
from mocketmq.schedule.levels import LevelTable
from mocketmq.schedule.profile import profile_named
from mocketmq.schedule.timer import Timer
from mocketmq.settings import Settings
from mocketmq.store.counters import Run, arrive, begin_run, read_past
from mocketmq.store.database import MEMORY, Database
from mocketmq.store.lock import DirectoryLock
from mocketmq.store.message_keys import MessageKeys
from mocketmq.store.writer import Writer

log = logging.getLogger(__name__)

SCHEDULE_QUEUES = 18
"""Level queues that exist even when the table is shorter, as upstream."""
_ALIYUN_PORT = "aliyun_port"
STORE_PORT = 10_911
"""The port in message ids: where upstream's broker listens."""


class Emulator:
    """A running emulator. Made by :func:`running_emulator`."""

    def __init__(
        self,
        settings: Settings,
        broker: Broker,
        http: HttpServer,
        remoting: RemotingServer | None,
        run: int,
        tasks: list[asyncio.Task[None]],
    ) -> None:
        self.settings = settings
        self.broker = broker
        self.http = http
        self.remoting = remoting  # None when it is switched off
        self.run = run
        self.tasks = tasks  # in the background, for as long as the emulator runs; one that ends has failed

    @property
    def url(self) -> str:
        """Where the JSON API listens."""
        return self.http.url

    @property
    def aliyun_url(self) -> str | None:
        """Where Aliyun's HTTP protocol listens by itself; the JSON API's port serves it as well."""
        return self.http.more_urls.get(_ALIYUN_PORT)

    @property
    def namesrv_address(self) -> str | None:
        """``host:port`` of the name server, unless remoting is off."""
        return None if self.remoting is None else self.remoting.namesrv_address

    @property
    def broker_address(self) -> str | None:
        """``host:port`` of the broker, unless remoting is off."""
        return None if self.remoting is None else self.remoting.broker_address


@asynccontextmanager
async def running_emulator(settings: Settings) -> AsyncIterator[Emulator]:
    """Start an emulator, and stop it at the end: listeners, timers, last commit, store.

    Raises SettingError, ListenError or a StoreError when it cannot start; nothing is left open then.
    """
    table = LevelTable.parse(settings.levels)
    access = access_of(settings)
    async with AsyncExitStack() as stack:
        if settings.data != MEMORY:
            stack.callback(DirectoryLock(Path(settings.data)).close)
        database = await Database.open(settings.data, settings.durability)
        stack.push_async_callback(database.close)
        broker, run, tasks = await _build(settings, table, database, stack)
        remoting = RemotingServer(broker, settings, access) if settings.remoting else None
        if remoting is not None:
            stack.push_async_callback(remoting.close)
            await remoting.start()
        doors, listeners = _doors(broker, settings, access, remoting)
        more_metrics = [remoting.metrics] if remoting is not None else []
        http = HttpServer(broker, settings, run, doors, listeners, more_metrics)
        stack.push_async_callback(http.close)
        await http.start()
        # Long polls end before the listeners wait for their handlers.
        stack.callback(broker.polls.close)
        http.is_ready = True
        try:
            yield Emulator(settings, broker, http, remoting, run, tasks)
        finally:
            http.is_ready = False


async def _build(
    settings: Settings, table: LevelTable, database: Database, stack: AsyncExitStack
) -> tuple[Broker, int, list[asyncio.Task[None]]]:
    past = await read_past(database)
    started_wall_us = wall_us()
    started_us = start_instant_us(settings.clock, started_wall_us, past.last_us, past.mark)
    clock = Clock(rate_of(settings.clock), started_us, wall_start_us=started_wall_us)
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
    await topics.put(TIMER_TOPIC, 1, 1, PERM_READ | PERM_WRITE)
    await topics.set_auto_create(is_on=settings.auto_create_topics)
    for declared in settings.topics:
        await topics.put_by_client(
            declared.name, declared.read_queues, declared.write_queues, permission_bits(declared.perm)
        )
    groups = Groups(writer, auto_create=settings.auto_create_groups)
    await groups.load(database)
    for group in settings.groups:
        await groups.put(group.name, group.max_retries, group.retry_queues)

    name_server = NameServer(writer)
    await name_server.load(database)

    timer = Timer(clock)
    ledger = Ledger(run)
    states, warnings = await load_levels(database, table, topics.levels())
    for warning in warnings:
        log.warning(warning)
    levels = LevelQueues(states, table, profile, clock, database, writer, ledger, topics.queue, timer.changed)
    timed = _timed_scheme(settings, started_us, clock, database, writer, ledger, topics, timer.changed)
    stack.push_async_callback(timed.files.close)
    await timed.load()
    polls = Polls()
    writer.on_arrival(polls.arrived)
    statistics = Statistics()
    writer.on_stored(statistics.stored)
    statistics.count_fired = lambda: timed.delivered
    topics.tell_deleted, groups.tell_deleted = statistics.forget_topic, statistics.forget_group
    retries = Retries(topics, levels)
    takes = Takes(database, topics, groups, polls, timer.changed)
    await takes.load()
    receipts = Receipts(database, writer, clock, topics, groups, takes, polls, ledger, retries, statistics)
    await levels.read_ahead()
    levels.others_due_us, timed.others_due_us = timed.next_due_us, levels.next_due_us
    timer.add(levels)
    timer.add(timed)
    timer.add(receipts)
    due_times = StartDeliverTime(clock, settings.start_deliver_time, settings.start_deliver_window_us)
    intake = Intake(clock, topics, groups, levels, due_times, settings.max_message_bytes)
    transactions = Transactions(
        database,
        writer,
        clock,
        topics,
        groups,
        levels,
        timed,
        intake,
        takes,
        settings.transaction_timeout_us,
    )
    await transactions.load()
    popped_halves = PoppedHalves(writer, clock, topics, groups, takes, receipts, transactions)
    timer.add(popped_halves)
    clients = Clients(groups.tells_changes)
    check_backs = CheckBacks(
        writer,
        clock,
        timer,
        topics,
        groups,
        takes,
        transactions,
        clients,
        interval_us=settings.transaction_check_interval_us,
        most=settings.transaction_check_max,
    )
    check_backs.load()
    timer.add(check_backs)
    pull = Pull(database, writer, topics, groups, takes, polls, ledger, retries, statistics)
    request_modes = RequestModes(writer, topics, groups)
    await request_modes.load(database)
    keys = MessageKeys(database, writer, past.keys_indexed_to)
    lives = Lives(database, topics, timed, keys, writer.store_host)
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
    stack.push_async_callback(pull.close)
    stack.push_async_callback(retention.close)
    stack.push_async_callback(keys.close)
    stack.push_async_callback(statistics.close)
    stack.push_async_callback(timer.close)
    tasks = [writer.task, timer.start(), timed.files.start(), retention.start(), keys.start()]
    tasks.append(statistics.start())

    broker = Broker(
        clock=clock,
        writer=writer,
        timer=timer,
        topics=topics,
        groups=groups,
        levels=levels,
        timed=timed,
        intake=intake,
        polls=polls,
        receipts=receipts,
        transactions=transactions,
        popped_halves=popped_halves,
        check_backs=check_backs,
        pull=pull,
        pops=Pops(database, writer, topics, groups, polls, clients, receipts),
        request_modes=request_modes,
        offsets=Offsets(database, clock, topics, groups, pull, clients),
        clients=clients,
        queue_locks=QueueLocks(),
        pending=PendingMessages(clock, timer, topics, levels, timed, lives),
        lives=lives,
        statistics=statistics,
        progress=Progress(database, clock, topics, groups, clients, statistics),
        reset=Reset(database, writer, timer, topics, groups, levels, timed, polls),
        name_server=name_server,
        retention=retention,
        arrive=partial(arrive, writer, clock, run),
    )
    return broker, run, tasks


def _timed_scheme(
    settings: Settings,
    started_us: int,
    clock: Clock,
    database: Database,
    writer: Writer,
    ledger: Ledger,
    topics: Topics,
    changed: Callable[[], None],
) -> SecondDirectories:
    """Raises StoreUnavailableError when the directory cannot be made."""
    try:
        directory = (
            MemoryDirectory() if settings.data == MEMORY else DelayDirectory(Path(settings.data) / FOLDER)
        )
    except OSError as error:
        raise StoreUnavailableError(f"the delay directory cannot be made: {error.strerror}") from error
    make, fires_at = SecondDirectories, exact
    if settings.start_deliver_time == "dongwo":
        make, fires_at = Dongwo, Scans(started_us)
    return make(
        directory,
        clock,
        database,
        writer,
        ledger,
        topics,
        topics.get(TIMER_TOPIC).queues[0],
        changed,
        sync=settings.delay_sync,
        quota_bytes=settings.delay_quota_bytes,
        fires_at=fires_at,
    )


def _doors(
    broker: Broker, settings: Settings, access: Access | None, remoting: RemotingServer | None
) -> tuple[dict[str, Door], list[Listener]]:
    """What is served beside the JSON API, by first segment of the path, and on ports of its own."""
    namesrv_port = None if remoting is None else remoting.namesrv_port
    aliyun = aliyun_http.AliyunDoor(broker, settings, access).answer
    doors = {
        aliyun_http.SEGMENT: aliyun,
        address_discovery.SEGMENT: address_discovery.address_discovery(
            settings.namesrv_address, namesrv_port
        ),
    }
    port = settings.aliyun_port
    return doors, [] if port is None else [Listener(_ALIYUN_PORT, port, doors, aliyun)]
