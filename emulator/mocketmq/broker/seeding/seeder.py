"""The seeder: stores seeds, with the history that they describe, in one transaction.

Seeds pass the intake like messages of clients. The seeder then stores what the broker would have done since
their time: a delayed message whose due time has passed is delivered, exactly at its due time; a message that
failed is copied for the group's next attempt, or into its dead letters; a group's offset is above the
messages that the group has seen. Deliveries in this history have no rows in the ledger, so a lateness report
counts only deliveries that the broker has made. When a message that is still pending is delivered later, it
gets a ledger row like any other.

Searches by time and retention rely on records being in order of their store times. The oldest seed must
therefore not be older than the newest record of the store.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup, ConsumingGroups
from mocketmq.broker.consuming.receipt import Outcome
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.consuming.retries import Retries
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.seeding.planting import (
    FailedCopy,
    Lag,
    Planted,
    Planting,
    RecordsMovedError,
    Seed,
    SeedRow,
)
from mocketmq.broker.sending.intake import AcceptedMessage
from mocketmq.broker.sending.queue_choice import queue_of_group
from mocketmq.broker.sending.sender import ACCEPTED_AT_ONCE, Sender
from mocketmq.clock import US_PER_MS, whole_ms_us
from mocketmq.errors import EmulatorError, InvalidArgumentError, RefusedError, SeedError, StoreBusyError
from mocketmq.event_loop import EventLoopTurns, completed
from mocketmq.instant import format_instant
from mocketmq.message.message import draft
from mocketmq.message.properties import START_DELIVER_TIME, TIMER_DELIVER_MS, TIMER_OUT_MS
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.store.store import Store

MAX_SEEDS: Final = 20_000
"""Maximum number of messages in one seed."""
DOOR: Final = "seed"
"""The front door that a seeded message's events name."""

_TRIES: Final = 20
_NEWEST: Final = "SELECT store_us FROM messages ORDER BY log_offset DESC LIMIT 1"
_ABSOLUTE: Final = (START_DELIVER_TIME, TIMER_DELIVER_MS)


@dataclass(eq=False, repr=False)
class Seeder:
    """Stores seeds: all of them, or none."""

    _store: Store
    _registry: Registry
    _levels: LevelQueues
    _groups: ConsumingGroups
    _receipts: Receipts
    _retries: Retries
    _sender: Sender
    _turns: EventLoopTurns = field(init=False, default_factory=EventLoopTurns)

    @completed
    async def plant(self, seeds: Sequence[Seed], lags: Sequence[Lag] = (), *, once: bool = False) -> Planted:
        """Store the seeds durably. With ``once``, the store no longer counts as new.

        Raises SeedError with the field of the refused seed, such as ``messages[3].delay``, or a StoreError.
        No message is stored then; only topics and groups that the seeds need, and that did not exist, stay.
        A kill may leave messages with an absolute due time, which their delay scheme stores first. The method
        runs to its end even if the caller is cancelled.
        """
        now_us = self._store.clock.now_us()
        rows: list[SeedRow] = []
        for index, seed in enumerate(seeds):
            with _naming(f"messages[{index}]"):
                rows.append(await self._accept(index, seed, now_us))
            if index % ACCEPTED_AT_ONCE == ACCEPTED_AT_ONCE - 1:
                await self._turns.next_turn()
        rows.sort(key=lambda row: row.at_us)
        consumers = await self._consumers(rows, lags)
        failures = await self._failures(rows)
        # Pending messages with an absolute due time are stored outside of the transaction, and before it.
        outside = [row for row in rows if row.visible_us is None and row.accepted.claim is not None]
        for row in outside:
            row.accepted.draft.stored_us = row.seed.sent_us
        kept = await self._sender.kept_messages.keep_all(row.accepted for row in outside)
        try:
            planting = Planting(
                self._sender.intake,
                self._levels,
                self._receipts,
                self._retries,
                rows,
                consumers,
                failures,
                once,
            )
            await self._commit(planting, rows)
        except BaseException:
            await self._sender.kept_messages.take_back(kept)
            raise
        copies = [one for each in failures.values() for one in each]
        return Planted(
            [row.accepted.draft.unique_key for row in sorted(rows, key=lambda row: row.number)],
            sum(row.visible_us is None for row in rows),
            sum(not one.is_dead for one in copies),
            sum(one.is_dead for one in copies),
        )

    async def is_store_new(self) -> bool:
        """Whether the store has never had a message or a declared seed."""
        noted = await self._store.database.rows("SELECT 1 FROM counters WHERE name = 'declared_seeds'")
        return not noted and self._store.writer.next_log_offset == 0

    async def _commit(self, planting: Planting, rows: Sequence[SeedRow]) -> None:
        async with AsyncExitStack() as stack:
            for group in planting.groups:
                await stack.enter_async_context(group.lock)
            for _ in range(_TRIES):
                next_log_offset = self._store.writer.next_log_offset
                await self._check_order(rows)
                try:
                    await self._store.writer.commit(partial(planting, next_log_offset), alone=True)
                except RecordsMovedError:
                    continue
                return
        raise StoreBusyError(
            "clients kept storing messages while the seed was compared with the store; try again"
        )

    async def _check_order(self, rows: Sequence[SeedRow]) -> None:
        """Raise SeedError if a seed with a given time is older than the newest record of the store."""
        newest_us = max((row[0] for row in await self._store.database.rows(_NEWEST)), default=0)
        for row in rows:
            if row.at_us < newest_us and row.seed.sent_us is not None:
                raise SeedError(
                    f"messages[{row.number}].sent_at",
                    f"messages[{row.number}].sent_at is {format_instant(row.at_us)}; allowed: not before"
                    f" {format_instant(newest_us)}, the time of the newest stored message. Reset the broker"
                    " first, or put all messages into one seed",
                    f"not before {format_instant(newest_us)}",
                )

    async def _accept(self, index: int, seed: Seed, now_us: int) -> SeedRow:
        """Pass a seed to the intake, and determine when it becomes visible. Raises a RefusedError."""
        message = seed.message
        sent_us = now_us if seed.sent_us is None else seed.sent_us
        if message.born_us is None:
            message.born_us = seed.sent_us
        if seed.ordering_key is not None and message.queue_id is None:
            topic = await self._registry.used_topics.for_send(message.topic)
            writable = queue_of_group(seed.ordering_key, topic.writable_count)
            message.queue_id = topic.writable_number(writable)
        message.door = DOOR
        accepted = await self._sender.intake.accept(message)
        due_us = self._due_us(seed, accepted, sent_us, now_us)
        if accepted.claim is not None and due_us is not None and due_us != accepted.claim.due_us:
            accepted.claim = accepted.claim._replace(due_us=due_us)
            if TIMER_OUT_MS in message.properties:
                message.properties[TIMER_OUT_MS] = str(whole_ms_us(due_us) // US_PER_MS)
                accepted.draft = draft(message, now_us)
        visible_us = sent_us if due_us is None else due_us if due_us <= now_us else None
        for name in ("consumed_by", "failed", "dead"):
            groups = list(getattr(seed, name))
            if groups and visible_us is None:
                raise InvalidArgumentError(name, groups, "no group, because the message is still pending")
        _check_once([*seed.consumed_by, *seed.failed, *seed.dead])
        return SeedRow(
            index, seed, accepted, sent_us, visible_us, due_us is not None and visible_us is not None
        )

    def _due_us(self, seed: Seed, accepted: AcceptedMessage, sent_us: int, now_us: int) -> int | None:
        """The due time of a seed, or None if it has no delay."""
        if accepted.level:
            return sent_us + self._levels.levels[accepted.level - 1].delay_us
        if seed.due_us is not None and self._sender.intake.delay_limiter is None:
            return max(seed.due_us, sent_us)
        if accepted.claim is None:
            return None
        is_absolute = any(name in seed.message.properties for name in _ABSOLUTE)
        return accepted.claim.due_us + (0 if is_absolute else sent_us - now_us)

    async def _consumers(
        self, rows: Iterable[SeedRow], lags: Sequence[Lag]
    ) -> dict[int, dict[ConsumingGroup, Outcome]]:
        """The groups that have seen each seed, and the outcome there, by the seed's index."""
        found: dict[int, dict[ConsumingGroup, Outcome]] = {}
        visible = [row for row in rows if row.visible_us is not None]
        for row in visible:
            seed = row.seed
            outcomes = dict.fromkeys(seed.consumed_by, Outcome.ACKED)
            outcomes |= dict.fromkeys(seed.failed, Outcome.RETRIED) | dict.fromkeys(seed.dead, Outcome.DEAD)
            if outcomes:
                with _naming(f"messages[{row.number}]"):
                    found[row.number] = {
                        await self._groups.for_use(name): outcome for name, outcome in outcomes.items()
                    }
        for index, lag in enumerate(lags):
            with _naming(f"progress[{index}]"):
                group = await self._groups.for_use(lag.group)
            of_topic = [row for row in visible if row.accepted.queue.topic == lag.topic]
            for row in of_topic[: max(len(of_topic) - lag.messages, 0)]:
                found.setdefault(row.number, {}).setdefault(group, Outcome.ACKED)
        return found

    async def _failures(self, rows: Iterable[SeedRow]) -> dict[int, list[FailedCopy]]:
        """The copies of failed messages, by the seed's index."""
        found: dict[int, list[FailedCopy]] = {}
        for row in rows:
            for is_dead, counts in ((False, row.seed.failed), (True, row.seed.dead)):
                for name, attempts in counts.items():
                    with _naming(f"messages[{row.number}]"):
                        group = await self._groups.for_use(name)
                        most = group.registered.max_retries
                        if not is_dead and attempts > most:
                            allowed = (
                                f"1 to {most}, the max_retries of {name}; after more, the message is dead"
                            )
                            raise InvalidArgumentError(f"failed.{name}", attempts, allowed)
                        queue = await self._retries.queue_for(
                            group.registered, row.accepted.queue, is_dead=is_dead
                        )
                    found.setdefault(row.number, []).append(FailedCopy(group, queue, attempts, is_dead))
        return found


@contextmanager
def _naming(table: str) -> Iterator[None]:
    """Turn errors about a table into errors that name the table."""
    try:
        yield
    except SeedError:
        raise
    except RefusedError as error:
        raise seed_error(table, error) from None


def seed_error(table: str, error: EmulatorError) -> SeedError:
    """Turn an error about a field into an error that names the table, such as ``messages[3]``."""
    field = getattr(error, "field", "")
    where = f"{table}.{field}" if field else table
    reason = str(error)
    sentence = where + reason.removeprefix(field) if field and reason.startswith(f"{field} ") else reason
    if sentence is reason:
        sentence = f"{table}: {reason}"
    return SeedError(where, sentence, getattr(error, "allowed", ""))


def _check_once(groups: Sequence[str]) -> None:
    for name in groups:
        if groups.count(name) > 1:
            raise InvalidArgumentError(
                "consumed_by", name, "each group only once in consumed_by, failed and dead"
            )
