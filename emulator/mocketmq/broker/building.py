"""Build a broker, start it, and stop it in the opposite order."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from mocketmq.broker.broker import Broker
from mocketmq.broker.clock_mover import ClockMover
from mocketmq.broker.consuming.consuming import open_consuming
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.inspection.inspection import make_inspection
from mocketmq.broker.outage import Outage
from mocketmq.broker.registry.registry import open_registry
from mocketmq.broker.registry.statistics import Statistics
from mocketmq.broker.removal.removal import Removal
from mocketmq.broker.removal.reset import Reset
from mocketmq.broker.removal.retention import Retention
from mocketmq.broker.sending.contracted import Contracted, contract_of
from mocketmq.broker.sending.intake import Intake
from mocketmq.broker.sending.replies import Replies
from mocketmq.broker.sending.sender import Sender
from mocketmq.broker.transactions.transactions import open_transactions
from mocketmq.broker.verification.verification import make_verification
from mocketmq.broker.watching.watching import make_watching
from mocketmq.clock import Clock
from mocketmq.faults.faults import open_faults
from mocketmq.message.names import TIMER_TOPIC
from mocketmq.schedule.held_deliveries import HeldDeliveries
from mocketmq.schedule.lateness_recording import open_playback
from mocketmq.schedule.ledger import Ledger
from mocketmq.schedule.level import load_levels
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.level_table import LevelTable
from mocketmq.schedule.profile import Profile
from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.schedule.timed_scheme import OpenScheme
from mocketmq.schedule.timer import Timer
from mocketmq.schedule.waiting_lines import WaitingLines
from mocketmq.settings import Settings
from mocketmq.store.counters import Past, Run, begin_run
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
    clock: Clock,
    past: Past,
    run: Run,
    table: LevelTable,
    profile: Profile,
    delay_schemes: Sequence[OpenScheme],
) -> AsyncIterator[Broker]:
    """Load everything from the store and start what goes on in the background. Raises a StoreError.

    ``store_host`` is the broker's ``host:port`` in message ids, as IPv4.

    At the end all that was accepted is stored, and the parts stop in reverse order.
    """
    async with AsyncExitStack() as stack:
        polls, statistics = Polls(), Statistics()
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
        store = Store(database, writer, clock)
        await begin_run(writer, run)
        faults = await open_faults(store)
        registry = await open_registry(store, settings, statistics, table.highest)
        topics = registry.topics

        timer, ledger = Timer(clock, writer), Ledger(run.run)
        states, warnings = await load_levels(database, table, topics.levels())
        for warning in warnings:
            log.warning(warning)
        contract = contract_of(settings)
        lines = WaitingLines(clock, contract.ahead) if contract and contract.ahead is not None else None
        schemes = SchemeSet(writer, lines)
        parked_queue = topics.get(TIMER_TOPIC).queues[0]
        outage = Outage(store, faults, timer.changed, polls.end)
        timer.add(outage)
        held = HeldDeliveries(
            store,
            faults,
            ledger,
            topics,
            parked_queue,
            topics.levels,
            timer.changed,
            open_playback(settings),
        )
        context = SchemeContext(
            store,
            run.started_us,
            ledger,
            topics,
            parked_queue,
            timer.changed,
            statistics.delivered,
            timer.lock,
            held.catch,
        )
        levels = LevelQueues(context, states, table, profile)
        schemes.add(levels)
        await held.load()
        schemes.add(held)
        for open_scheme in delay_schemes:
            scheme = await open_scheme(settings, context)
            stack.push_async_callback(scheme.close)
            schemes.add(scheme)
        await levels.read_ahead()
        await schemes.load_lines(topics.queue)

        consuming = await open_consuming(store, settings, registry, polls, ledger, levels, timer, contract)
        contracted = Contracted(contract, clock, table, schemes) if contract else None
        intake = Intake(clock, registry, levels, schemes, settings.max_message_bytes, contracted)
        transactions = await open_transactions(store, settings, registry, consuming, intake, schemes, timer)
        for each in schemes:
            timer.add(each)
        timer.add(consuming.receiver)
        timer.add(consuming.renewals)
        timer.add(transactions.popped_halves)
        timer.add(transactions.check_backs)
        keys = MessageKeys(store, past.keys_indexed_to)
        inspection = make_inspection(store, registry, consuming, timer, schemes, keys)
        verification = make_verification(store, registry, consuming, schemes, settings.max_message_bytes)
        watching = make_watching(store, topics, levels, held, schemes, polls)
        removal = Removal(
            Reset(
                store,
                settings,
                registry,
                consuming,
                timer,
                schemes,
                run.run,
                [verification.expectations.forget, watching.live.forget, consuming.trail.steps.clear],
            ),
            Retention(
                store,
                registry,
                consuming.groups,
                schemes,
                age_us=settings.retain_age_us,
                max_bytes=settings.retain_bytes,
            ),
            faults,
        )
        stack.callback(outage.close)
        stack.push_async_callback(levels.close)
        stack.push_async_callback(consuming.receiver.close)
        stack.push_async_callback(consuming.committed.close)
        stack.push_async_callback(removal.retention.close)
        stack.push_async_callback(keys.close)
        stack.push_async_callback(statistics.close)
        stack.push_async_callback(timer.close)
        tasks = [
            writer.task,
            timer.start(),
            *schemes.start(),
            removal.retention.start(),
            keys.start(),
            statistics.start(),
        ]
        sender = Sender(store, timer, schemes, intake)
        yield Broker(
            store=store,
            faults=faults,
            outage=outage,
            timer=timer,
            mover=ClockMover(store, run.run, timer, inspection.pending),
            levels=levels,
            schemes=schemes,
            held=held,
            registry=registry,
            sender=sender,
            replies=Replies(clock, registry, sender),
            consuming=consuming,
            transactions=transactions,
            inspection=inspection,
            verification=verification,
            watching=watching,
            removal=removal,
            tasks=tasks,
        )
