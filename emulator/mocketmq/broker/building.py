"""Builds a broker, starts it, and stops it in the opposite order.

Each step makes one part of the picture in docs/architecture.md from the parts made before. A part is set on
the broker as soon as it is made. No other code uses the broker before the last step.
"""

import logging
import platform
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from mocketmq import __version__
from mocketmq.access.access import Access
from mocketmq.broker.broker import Broker
from mocketmq.broker.broker_lives import BrokerLives
from mocketmq.broker.clock_mover import ClockMover
from mocketmq.broker.consuming.committed_offsets import CommittedOffsets
from mocketmq.broker.consuming.consuming_groups import ConsumingGroups
from mocketmq.broker.consuming.ledger_notes import LedgerNotes
from mocketmq.broker.consuming.offset_resets import Offsets
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.consuming.pops import Pops
from mocketmq.broker.consuming.pull import Pull
from mocketmq.broker.consuming.queue_locks import QueueLocks
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.consuming.receiver import Receiver
from mocketmq.broker.consuming.retries import Retries
from mocketmq.broker.consuming.settler import Settler
from mocketmq.broker.consuming.visibility import ExpiredReceipts, Renewals
from mocketmq.broker.failover import Failover
from mocketmq.broker.inspection.consumer_lag import ConsumerLag
from mocketmq.broker.inspection.consumers import Consumers
from mocketmq.broker.inspection.group_progress import GroupProgress
from mocketmq.broker.inspection.history import Histories
from mocketmq.broker.inspection.pending import PendingMessages
from mocketmq.broker.inspection.recalls import Recalls
from mocketmq.broker.life import Lives
from mocketmq.broker.lite.expiry import LiteExpiry
from mocketmq.broker.lite.lite_topic_list import LiteTopicList
from mocketmq.broker.lite.subscriptions import LiteSubscriptions
from mocketmq.broker.name_servers import NameServerViews
from mocketmq.broker.outage import Outage
from mocketmq.broker.registry.registry import open_registry
from mocketmq.broker.registry.statistics import Statistics
from mocketmq.broker.removal.crash_loss import CrashLoss
from mocketmq.broker.removal.reset import FullReset, Reset, Wipe
from mocketmq.broker.removal.retention import Retention
from mocketmq.broker.replication import Replication, SlaveOffsets
from mocketmq.broker.seeding.seeder import Seeder
from mocketmq.broker.sending.delay_limiter import DelayLimiter, delay_limits_of
from mocketmq.broker.sending.intake import Intake, RetryLimit
from mocketmq.broker.sending.replies import Replies
from mocketmq.broker.sending.sender import Sender
from mocketmq.broker.snapshots.restorer import Restorer
from mocketmq.broker.snapshots.snapshots import Snapshots, capture_state
from mocketmq.broker.transactions.check_backs import CheckBacks
from mocketmq.broker.transactions.half_messages import HalfMessages
from mocketmq.broker.transactions.popped_halves import PoppedHalves
from mocketmq.broker.verification.events import Events
from mocketmq.broker.verification.expectations import Expectations
from mocketmq.broker.verification.leaks import Leaks
from mocketmq.broker.watching.live import Live
from mocketmq.broker.watching.message_list import MessageList
from mocketmq.broker.watching.message_states import MessageStates
from mocketmq.broker.watching.stored_records import StoredRecords
from mocketmq.clock import Clock, rate_of, start_instant_us, this_moment
from mocketmq.delay_limits import DelayLimits
from mocketmq.errors import SettingError
from mocketmq.faults.rule_set import FaultRules
from mocketmq.message.names import TIMER_TOPIC
from mocketmq.schedule.held_deliveries import HeldDeliveries
from mocketmq.schedule.ledger import LedgerWriter
from mocketmq.schedule.level import load_levels
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.level_table import LevelTable
from mocketmq.schedule.profile import profile_named
from mocketmq.schedule.scheme import SchemeContext
from mocketmq.schedule.scheme_set import SchemeSet, WaitingLines
from mocketmq.schedule.timed_scheme import OpenScheme
from mocketmq.schedule.timer import Timer
from mocketmq.settings import Settings
from mocketmq.store.counters import Run, begin_run, read_past
from mocketmq.store.database import Database
from mocketmq.store.message_keys import MessageKeys
from mocketmq.store.store import Store
from mocketmq.store.writer import Writer

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_broker(
    settings: Settings,
    database: Database,
    store_host: str,
    table: LevelTable,
    delay_schemes: Sequence[OpenScheme],
    access: Access | None = None,
) -> AsyncIterator[Broker]:
    """Load everything from the store, and start the background tasks. Raises a StoreError.

    ``store_host`` is the broker's IPv4 ``host:port``, as used in message ids. ``access`` gets the users in
    the store.

    On exit the broker stores all accepted messages, and stops the parts in reverse order.
    """
    delay_limits = delay_limits_of(settings)
    broker = Broker()
    async with AsyncExitStack() as stack:
        statistics = Statistics(brokers=settings.brokers)
        started_us = await _open_store(broker, settings, database, store_host, table, statistics, stack)
        doors = ("remoting", "grpc") if settings.proxy_mode == "local" else ("remoting",)
        broker.faults = FaultRules(
            broker.store, settings.broker_names, doors, has_slaves=bool(settings.slaves)
        )
        await broker.faults.load()
        broker.registry = await open_registry(broker.store, settings, statistics, table.highest, access)
        await _open_schedule(broker, settings, started_us, table, delay_limits, delay_schemes, stack)
        await _open_consuming(broker, settings, delay_limits)
        await _open_sending(broker, settings, table, delay_limits)
        _make_answers(broker, settings)
        _make_removal(broker, settings)
        _make_snapshots(broker, settings)
        broker.opened_pack = None
        _add_due_sources(broker, settings)
        _start(broker, stack)
        yield broker


async def _open_store(
    broker: Broker,
    settings: Settings,
    database: Database,
    store_host: str,
    table: LevelTable,
    statistics: Statistics,
    stack: AsyncExitStack,
) -> int:
    """Open the writer and the clock. The clock continues from the last run. Returns the time of the start."""
    past = await read_past(database)
    if past.run and past.brokers != settings.brokers:
        raise SettingError(
            *("brokers", settings.brokers, str(past.brokers)),
            reason=f"brokers is {settings.brokers}; allowed: {past.brokers}, which share the queues of the"
            f" store in {settings.data}. Use this number, or another data directory",
        )
    started = this_moment()
    started_us = start_instant_us(settings.clock, started.wall_us, past.last_us, past.mark)
    clock = Clock(rate_of(settings.clock), started_us, started=started)
    run = Run(
        past.run + 1,
        started.wall_us,
        started_us,
        __version__,
        platform.node(),
        settings.profile,
        clock.mode,
        table.text,
        settings.durability,
        ",".join(settings.broker_names) if settings.brokers > 1 else "",
    )
    polls = broker.polls = Polls()
    writer = Writer(
        database,
        clock,
        store_host,
        past.next_log_offset,
        past.last_store_us,
        on_arrival=polls.arrived,
        on_stored=statistics.stored,
        on_change=polls.changed,
    )
    stack.push_async_callback(writer.close)
    broker.store = Store(database, writer, clock, run.run)
    broker.message_keys = MessageKeys(broker.store, past.keys_indexed_to)
    await begin_run(writer, run, settings.brokers)
    return started_us


async def _open_schedule(
    broker: Broker,
    settings: Settings,
    started_us: int,
    table: LevelTable,
    delay_limits: DelayLimits | None,
    delay_schemes: Sequence[OpenScheme],
    stack: AsyncExitStack,
) -> None:
    """Open the timer and the delay schemes: level queues, held deliveries, and ``delay_schemes``."""
    store, topics, faults = broker.store, broker.registry.topics, broker.faults
    timer = broker.timer = Timer(store.clock, store.writer)
    ledger = broker.ledger = LedgerWriter(store.run)
    states, warnings = await load_levels(store.database, table, topics.levels())
    for warning in warnings:
        log.warning(warning)
    ahead = delay_limits.ahead if delay_limits else None
    lines = None if ahead is None else WaitingLines(store.clock, ahead)
    schemes = broker.schemes = SchemeSet(store.writer, lines)
    broker.outage = Outage(store, faults, timer.changed, broker.polls.end)
    parked_queue = topics.get(TIMER_TOPIC).queues[0]
    playback = None
    if settings.lateness_from is not None:
        from mocketmq.schedule.lateness_playback import open_playback  # noqa: PLC0415 - rarely used

        playback = open_playback(settings.lateness_from, settings.lateness_seed)
    held = broker.held = HeldDeliveries(
        store, faults, ledger, topics, timer.changed, broker.registry.brokers, playback
    )
    context = SchemeContext(
        store,
        started_us,
        ledger,
        topics,
        parked_queue,
        timer.changed,
        broker.registry.statistics.delivered,
        timer.intervention,
        schemes.cancel_all,
        held.catch,
    )
    profile = profile_named(settings.profile, started_us)
    levels = broker.levels = LevelQueues(context, states, table, profile)
    schemes.add_scheme(levels)
    await held.load()
    schemes.add_scheme(held)
    for open_scheme in delay_schemes:
        scheme = await open_scheme(settings, context)
        stack.push_async_callback(scheme.close)
        schemes.add_scheme(scheme)
    await levels.read_ahead()
    await schemes.load_lines(topics.queue)


async def _open_consuming(broker: Broker, settings: Settings, delay_limits: DelayLimits | None) -> None:
    """Open the state of groups, and the three ways to consume: by receipt, by pop and by offset."""
    store, registry, polls, timer = broker.store, broker.registry, broker.polls, broker.timer
    groups = broker.consuming_groups = ConsumingGroups(store, registry.groups)
    registry.clients.on_deserted = groups.desert
    await groups.load(registry.topics)
    receipts = broker.receipts = Receipts(store, registry, groups, polls, broker.ledger, timer.changed)
    await receipts.load()
    retries = broker.retries = Retries(store, registry, receipts, broker.levels)
    receiver = broker.receiver = Receiver(store, registry, receipts, polls, delay_limits)
    settler = broker.settler = Settler(store, registry, receipts, retries)
    broker.expired_receipts = ExpiredReceipts(store.database, receipts, retries)
    notes = broker.ledger_notes = LedgerNotes(store.writer, broker.ledger)
    broker.renewals = Renewals(settler, timer.changed)
    broker.pops = Pops(store, registry, groups, polls, receiver, settler)
    broker.committed_offsets = CommittedOffsets(store, registry, groups, polls, notes)
    broker.offset_resets = Offsets(store, registry, groups, broker.committed_offsets)
    broker.pull = Pull(store, settings, registry, groups, polls, notes)
    broker.queue_locks = QueueLocks()
    broker.slave_offsets = SlaveOffsets(registry.brokers)
    broker.replication = Replication(store.clock, broker.faults, registry.brokers)
    lite_expiry = broker.lite_expiry = LiteExpiry(registry.topics, groups)
    wipe = Wipe(store, registry, groups, timer, broker.schemes, lite_expiry, broker.held, notes.trail)
    loss = broker.crash_loss = CrashLoss(
        store, registry, groups, receipts, timer, broker.schemes, broker.held, notes
    )
    broker.broker_lives = BrokerLives(
        store,
        timer,
        registry.brokers,
        broker.held,
        broker.queue_locks,
        broker.outage,
        polls.end,
        wipe.run,
        loss.run,
        settings.crash_loses,
        broker.replication,
        broker.slave_offsets,
        broker.committed_offsets,
    )
    await broker.broker_lives.load()
    broker.failover = Failover(store.clock, registry.brokers, broker.broker_lives, settings.failover_after_us)
    registry.brokers.on_changed.append(timer.changed)
    broker.name_servers = NameServerViews(registry.brokers, broker.outage, settings.name_servers)
    registry.topics.lites.on_made = timer.changed
    broker.lite_subscriptions = LiteSubscriptions(
        registry, groups, polls, broker.committed_offsets, broker.offset_resets
    )
    broker.lite_topic_list = LiteTopicList(
        registry.topics, groups, broker.lite_expiry, broker.lite_subscriptions
    )


async def _open_sending(
    broker: Broker, settings: Settings, table: LevelTable, delay_limits: DelayLimits | None
) -> None:
    """Open sending, replies, and transactions, whose half messages are sent once they are committed."""
    store, registry, schemes, timer = broker.store, broker.registry, broker.schemes, broker.timer
    delay_limiter = DelayLimiter(delay_limits, store.clock, table, schemes) if delay_limits else None
    retry_limit = RetryLimit(broker.queue_locks.has_locks, settings.server_version)
    intake = Intake(
        store.clock, registry, broker.levels, schemes, retry_limit, settings.max_message_bytes, delay_limiter
    )
    broker.sender = Sender(store, timer, schemes, intake)
    broker.seeder = Seeder(
        store,
        registry,
        broker.levels,
        broker.consuming_groups,
        broker.receipts,
        broker.retries,
        broker.sender,
    )
    broker.replies = Replies(store.clock, registry, broker.sender)
    halves = broker.half_messages = HalfMessages(
        store, registry, broker.receipts, intake, schemes, settings.transaction_timeout_us
    )
    await halves.load()
    broker.popped_halves = PoppedHalves(store, registry, broker.receipts, broker.receiver, halves)
    broker.check_backs = CheckBacks(store, settings, registry, broker.receipts, timer, halves)
    broker.check_backs.load()


def _make_answers(broker: Broker, settings: Settings) -> None:
    """Make the parts that answer people, tests and the console, by reading from the store on request."""
    store, registry, schemes, polls = broker.store, broker.registry, broker.schemes, broker.polls
    groups, topics = broker.consuming_groups, registry.topics
    lives = Lives(store.clock, topics, schemes, broker.ledger_notes.trail, registry.brokers)
    broker.histories = Histories(store, topics, schemes, broker.message_keys, broker.ledger_notes, lives)
    broker.pending = PendingMessages(broker.timer, topics, schemes, broker.held, broker.histories)
    broker.mover = ClockMover(store, broker.timer, broker.pending)
    broker.recalls = Recalls(store.clock, topics, broker.pending)
    broker.group_progress = GroupProgress(store, registry, groups, broker.levels, broker.held)
    broker.consumer_lag = ConsumerLag(store, groups, broker.group_progress, registry.brokers)
    broker.consumers = Consumers(registry, broker.histories)
    broker.expectations = Expectations(
        store, registry, groups, polls, schemes, broker.held, broker.mover.reach, settings.max_message_bytes
    )
    broker.leaks = Leaks(
        store.database, registry.clients, groups, polls, broker.lite_subscriptions, broker.expectations
    )
    broker.events = Events(store, groups, schemes, lives, broker.broker_lives.changes)
    broker.stored_records = StoredRecords(store, topics, schemes, lives)
    broker.message_states = MessageStates(store.database, registry, groups, lives)
    broker.message_list = MessageList(
        store, schemes, broker.message_keys, lives, broker.stored_records, broker.message_states
    )
    broker.live = Live(store, broker.levels, broker.held, schemes, polls, broker.stored_records)


def _make_removal(broker: Broker, settings: Settings) -> None:
    """Make retention and resets. A reset makes all other parts forget their state in memory."""
    store, registry, schemes, groups = broker.store, broker.registry, broker.schemes, broker.consuming_groups
    on_reset = [
        broker.expectations.forget,
        broker.live.forget,
        broker.ledger_notes.trail.steps.clear,
        broker.broker_lives.changes.clear,
    ]
    broker.reset = Reset(
        store, registry, groups, broker.polls, broker.timer, schemes, broker.lite_expiry, on_reset
    )
    on_full_reset = [broker.broker_lives.start_all, broker.name_servers.correct_all]
    broker.full_reset = FullReset(settings, registry, groups, broker.faults, broker.reset, on_full_reset)
    broker.retention = Retention(
        store, registry, groups, schemes, age_us=settings.retain_age_us, max_bytes=settings.retain_bytes
    )


def _make_snapshots(broker: Broker, settings: Settings) -> None:
    """Make snapshots, which save and restore all parts that keep a state in memory."""

    async def heal_cluster() -> None:
        await broker.broker_lives.start_restored()
        await broker.name_servers.correct_all()

    on_restored = [
        broker.broker_lives.heal_restored,
        broker.expectations.forget,
        broker.live.begin_again,
        broker.ledger_notes.trail.steps.clear,
    ]
    broker.opened_pack = None
    restorer = Restorer(
        settings,
        broker.store,
        broker.registry,
        broker.consuming_groups,
        broker.receipts,
        broker.committed_offsets,
        broker.polls,
        broker.timer,
        broker.schemes,
        broker.levels,
        broker.held,
        broker.half_messages,
        broker.lite_subscriptions,
        broker.message_keys,
        broker.faults,
        broker.retention,
        heal_cluster,
        on_restored,
    )
    broker.crash_loss.on_changed = restorer.lineage.changed
    capture = partial(
        capture_state, broker.store, broker.timer, broker.schemes, broker.levels, restorer.lineage
    )
    broker.snapshots = Snapshots(settings, broker.store.clock, broker.committed_offsets, capture, restorer)


def _add_due_sources(broker: Broker, settings: Settings) -> None:
    """Add the due sources to the timer. At the same instant, a source that was added earlier fires first."""
    if settings.failover == "controller":
        broker.timer.add_source(broker.failover)
    for source in (
        broker.outage,
        *broker.schemes,
        broker.expired_receipts,
        broker.renewals,
        broker.lite_expiry,
        broker.popped_halves,
        broker.check_backs,
    ):
        broker.timer.add_source(source)


def _start(broker: Broker, stack: AsyncExitStack) -> None:
    """Start the background tasks. On exit, stop each part before the parts that it needs."""
    statistics = broker.registry.statistics
    stack.callback(broker.outage.close)
    for close in (
        broker.levels.close,
        broker.receiver.close,
        broker.committed_offsets.close,
        broker.retention.close,
        broker.message_keys.close,
        statistics.close,
        broker.timer.close,  # the stack closes it first
    ):
        stack.push_async_callback(close)
    broker.tasks = [
        broker.store.writer.task,
        broker.timer.start(),
        *broker.schemes.start(),
        broker.retention.start(),
        broker.message_keys.start(),
        statistics.start(),
    ]
