"""Half messages: messages that are invisible to consumers until their producer commits them.

A half message is an ordinary message of a system topic. One of the broker's own groups takes it in the
transaction that stores it. There are two kinds, by front door, each with its own way of deciding::

    Aliyun's HTTP, in ``%HALF%T``           producers pop it after its immunity time, and decide by handle
                                            (``popped_halves``)
    any other door, with a producer group,  the broker asks a producer of the group after its immunity time
    in ``RMQ_SYS_TRANS_HALF_TOPIC``         (``check_backs``); producers decide by its offsets or its id

A commit copies the message to its real topic, or parks it with its delay, and settles the half message in the
same transaction; a rollback only settles the half message. No half message is decided twice.

A message with an absolute due time is kept by its delay scheme before its half message is settled. After a
kill in between, the next start settles the half message. If only the store fails in between, the half message
is open again. The next commit keeps the message under the same number, and therefore only once. Such a half
message can no longer be rolled back; the next check-back, or the end of the 24 h, settles it as committed.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from mocketmq.broker.consuming.receipt import Outcome, Receipt, State
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.sending.intake import AcceptedMessage, Intake
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.errors import IllegalMessageError, MessageNotFoundError, TopicNotFoundError, UndecidableError
from mocketmq.event_loop import run_to_completion
from mocketmq.failpoint import pass_point
from mocketmq.message.message import COMMITTED_FLAG, TRANSACTION_FLAGS, Message, StoredMessage, draft_of
from mocketmq.message.message_id import log_offset_of
from mocketmq.message.message_types import PRIORITY_PROPERTY
from mocketmq.message.names import CHECKED_HALF_GROUP, CHECKED_HALF_TOPIC, HALF_GROUP
from mocketmq.message.properties import (
    CHECK_IMMUNITY,
    CHECK_TIMES,
    HALF_DUE_US,
    MAX_PROPERTIES_BYTES,
    PGROUP,
    REAL_QID,
    REAL_TOPIC,
    TRAN_MSG,
    decode_properties,
    encode_properties,
)
from mocketmq.schedule.scheme_set import Claim, SchemeSet
from mocketmq.store.batch import Batch
from mocketmq.store.messages import MAX_AT_ONCE, NO_LIMIT, fitting_messages_at, messages_at
from mocketmq.store.queue import Queue
from mocketmq.store.receipt_rows import open_with_key, open_with_property
from mocketmq.store.store import Store

LONGEST_IMMUNITY_S: Final = 365 * 24 * 3600

_NOT_FOUND: Final = "Find prepared transaction message failed"
_IMMUNITY: Final = re.compile("-1|[0-9]{1,9}")
_BY_QUEUE: Final = (
    "SELECT real_queue_key, count(*) FROM messages WHERE log_offset IN ({}) GROUP BY real_queue_key"
)
_GROUPS: Final = (HALF_GROUP, CHECKED_HALF_GROUP)


class HalfMessage(NamedTuple):
    """An open half message, that is, one without a decision."""

    receipt: Receipt
    stored: StoredMessage  # with the properties for its consumers
    queue: Queue  # the real queue
    claim: Claim | None  # the delay scheme for the committed message, and its due time
    producer_group: str | None  # the group whose producers are asked; None for a popped half message

    @property
    def due_us(self) -> int | None:
        """The absolute due time; None for a half message without one."""
        return None if self.claim is None else self.claim.due_us


class HalfMessages:
    """Stores half messages and the decisions about them."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        receipts: Receipts,
        intake: Intake,
        schemes: SchemeSet,
        timeout_us: int,
    ) -> None:
        self.prepared = 0  # this counter and the next three count since the start
        self.committed = 0
        self.rolled_back = 0
        self.abandoned = 0  # number of half messages settled without a decision
        # Called with the log offset of each half message whose producer has answered.
        self.on_answer: Callable[[int], None] = lambda _log_offset: None
        self._database = store.database
        self._writer = store.writer
        self._clock = store.clock
        self._topics = registry.topics
        self._groups = receipts.groups
        self._statistics = registry.statistics
        self._schemes = schemes
        self._intake = intake
        self._receipts = receipts
        self._timeout_us = timeout_us
        self._kept: set[int] = set()  # log offsets of open half messages kept by a delay scheme

    async def load(self) -> None:
        """Settle half messages whose commit a kill interrupted after their delay scheme kept them."""
        self._kept.clear()
        rows = await open_with_property(self._database, _GROUPS, HALF_DUE_US)
        kept = {number for number, unique_key in rows if await self._schemes.have_kept(number, unique_key)}

        def work(batch: Batch) -> None:
            for receipt in self.open():
                if receipt.log_offset in kept:
                    self._receipts.settle(batch, receipt, Outcome.COMMITTED)

        if kept:
            await self._writer.commit(work)

    # Preparing

    async def prepare_checked(self, message: Message, producer_group: str) -> HalfMessage:
        """Store a half message with check-backs to producers of the group; durable on return.

        Raises the errors of :meth:`Intake.accept`, and then stores nothing.

        The first check-back is after the setting ``transaction_timeout``, or after the seconds in the
        message's ``CHECK_IMMUNITY_TIME_IN_SECONDS``. Properties are set as in RocketMQ
        (docs/protocol/remoting.md §9).
        """
        immunity_us = self._immunity_us(message)
        message.properties |= {TRAN_MSG: "true", PGROUP: producer_group}
        accepted = await self.accept(message)
        where = {
            REAL_TOPIC: accepted.queue.topic,
            REAL_QID: str(self._topics.brokers.queue_id(accepted.queue)),
        }
        marks = {} if accepted.level else where  # a message with a level already has these marks
        stored, receipt = await self.prepare(
            accepted, CHECKED_HALF_TOPIC, CHECKED_HALF_GROUP, immunity_us, marks
        )
        return self._half(receipt, stored)

    async def accept(self, message: Message) -> AcceptedMessage:
        """Decide where and when the committed message becomes visible, like :meth:`Intake.accept`."""
        if HALF_DUE_US in message.properties:
            raise IllegalMessageError("properties", f"property {HALF_DUE_US} is reserved for the broker")
        PRIORITY_PROPERTY.check_absent(
            message.properties, "a transactional message cannot have one. Send the message without it"
        )
        message.sys_flag &= ~TRANSACTION_FLAGS
        return await self._intake.accept(message)

    async def prepare(
        self,
        accepted: AcceptedMessage,
        topic_name: str,
        group_name: str,
        immunity_us: int,
        marks: dict[str, str],
    ) -> tuple[StoredMessage, Receipt]:
        """Store it in a system topic. One of the broker's groups takes it for ``immunity_us``."""
        [queue] = (await self._topics.ensure(topic_name, 1)).queues
        group = await self._groups.for_broker(group_name)
        if accepted.claim is not None:
            marks = {**marks, HALF_DUE_US: self._schemes.note(accepted.claim)}
        draft = accepted.draft
        draft.properties += encode_properties(marks)

        def work(batch: Batch) -> tuple[StoredMessage, Receipt]:
            self._intake.check(accepted)
            self._topics.check_is_open(queue)
            group.check_exists()
            stored = batch.append(queue, draft, "prepared", real_queue_key=accepted.queue.key)
            return stored, self._receipts.take_new(batch, group, queue, stored, immunity_us)

        stored, receipt = await self._writer.commit(work)
        pass_point("transactions.prepared")
        self.prepared += 1
        traffic = self._statistics.traffic_of(accepted.queue)
        traffic.count_stored(topic_name, "transaction", len(draft.body))
        return stored, receipt

    def _immunity_us(self, message: Message) -> int:
        text = message.properties.get(CHECK_IMMUNITY, "-1")
        if not _IMMUNITY.fullmatch(text) or int(text) > LONGEST_IMMUNITY_S:
            raise IllegalMessageError(
                "properties",
                f"property {CHECK_IMMUNITY} is {text[:80]!r}; allowed: a whole number of seconds from 0 to"
                f" {LONGEST_IMMUNITY_S}, or -1 for the broker's own time",
            )
        return self._timeout_us if text == "-1" else int(text) * US_PER_S

    # Deciding by offsets or by id

    async def end(
        self, log_offset: int, queue_offset: int, producer_group: str, *, commit: bool | None
    ) -> None:
        """Handle a producer's answer about a half message. ``commit`` is None if it is undecided.

        Raises UndecidableError, in RocketMQ's words, unless the half message is open and of this group.
        """
        try:
            if commit is not None:
                half = await self._at(log_offset)
                if half.producer_group != producer_group:
                    raise UndecidableError("The producer group wrong")
                if half.stored.queue_offset != queue_offset:
                    raise UndecidableError("The transaction state table offset wrong")
                await self._decide(half, commit=commit)
        finally:
            self.on_answer(log_offset)

    async def decide(self, message_id: str, *, commit: bool, topic: str | None = None) -> HalfMessage:
        """Commit or roll back the open half message with this unique key or offset message id.

        If several have the unique key, the oldest is decided. ``topic``, if given, must match. Raises
        MessageNotFoundError, UndecidableError, and BrokerDownError if clients cannot reach its broker.
        """
        half = await self._find(message_id, topic)
        self._topics.brokers.check_has_reachable_broker(half.queue)
        await self._decide(half, commit=commit)
        self.on_answer(half.receipt.log_offset)
        return half

    async def leave_undecided(self, message_id: str, *, topic: str) -> None:
        """Note that the producer has not decided about this half message yet. Raises MessageNotFoundError."""
        half = await self._find(message_id, topic)
        self.on_answer(half.receipt.log_offset)

    async def _decide(self, half: HalfMessage, *, commit: bool) -> None:
        receipt = half.receipt

        def check() -> None:
            if not receipt.is_open:
                raise UndecidableError(_NOT_FOUND)
            if receipt.state is State.RESERVED:  # otherwise the row of the pop might be stored last
                raise UndecidableError("a producer is popping the half message")
            if self.is_kept(receipt) and not commit:
                raise UndecidableError("the half message is being committed")

        def roll_back(batch: Batch) -> None:
            check()
            self._receipts.settle(batch, receipt, Outcome.ROLLED_BACK)

        check()

        if not commit:
            await self._writer.commit(roll_back)
            self.rolled_back += 1
            self._statistics.traffic_of(half.queue).rolled_back[half.queue.topic] += 1
        elif not await self.commit([receipt]):
            raise UndecidableError(_NOT_FOUND)
        pass_point("transactions.decided")

    async def _at(self, log_offset: int) -> HalfMessage:
        group = self._groups.find_group(CHECKED_HALF_GROUP)
        receipt = group.receipts.get(log_offset) if group else None
        halves = await self.halves([receipt]) if receipt else []
        if not halves:
            raise UndecidableError(_NOT_FOUND)
        return halves[0]

    async def _find(self, message_id: str, topic: str | None) -> HalfMessage:
        with_key = await open_with_key(self._database, _GROUPS, message_id)
        numbers = [*with_key, log_offset_of(message_id)]
        receipts = {receipt.log_offset: receipt for receipt in self.open()}
        halves = await self.halves([receipts[number] for number in numbers if number in receipts][:1])
        if not halves or topic not in (None, halves[0].queue.topic):
            of_topic = "" if topic is None else f" of topic {topic}"
            raise MessageNotFoundError(
                f"no half message{of_topic} with the id {message_id[:80]!r} is waiting for a decision: it was"
                " committed, rolled back, discarded, or never prepared"
            )
        return halves[0]

    # Open half messages

    def open(self) -> list[Receipt]:
        """The receipts of open half messages, in the order in which they were stored."""
        kinds = (self._groups.find_group(name) for name in _GROUPS)
        receipts = (
            receipt for group in kinds if group for receipt in group.receipts.values() if receipt.is_open
        )
        return sorted(receipts, key=lambda receipt: receipt.log_offset)

    async def page(
        self, after: int, limit: int, *, topic_name: str | None = None, max_bytes: int = NO_LIMIT
    ) -> list[HalfMessage]:
        """Up to ``limit`` open half messages with log offsets above ``after``, of one topic or all, in order.

        The page ends once its bodies have ``max_bytes``. A page has at most twice as many bytes, unless one
        body is larger. Raises TopicNotFoundError.
        """
        if topic_name is not None:
            self._topics.get(topic_name)
        receipts = [receipt for receipt in self.open() if receipt.log_offset > after]
        found: list[HalfMessage] = []
        first = size = 0
        while first < len(receipts) and len(found) < limit and size < max_bytes:
            some = receipts[first : first + limit]
            offsets = [receipt.log_offset for receipt in some]
            messages, count = await fitting_messages_at(self._database, offsets, max_bytes, or_first=True)
            halves = self._halves(some[:count], messages)
            found += [half for half in halves if topic_name in (None, half.queue.topic)]
            size = sum(len(half.stored.body) for half in found)
            first += count
        return found[:limit]

    async def open_by_queue(self) -> Counter[Queue]:
        """The number of open half messages by the queue to which they were sent."""
        found: Counter[Queue] = Counter()
        numbers = [receipt.log_offset for receipt in self.open()]
        for first in range(0, len(numbers), MAX_AT_ONCE):
            some = numbers[first : first + MAX_AT_ONCE]
            for key, count in await self._database.rows(_BY_QUEUE.format(",".join("?" * len(some))), some):
                if (queue := self._topics.find_by_key(key)) is not None:
                    found[queue] += count
        return found

    async def halves(self, receipts: Sequence[Receipt]) -> list[HalfMessage]:
        """Read the half messages of these receipts. Removed messages are omitted."""
        found = await messages_at(self._database, [receipt.log_offset for receipt in receipts])
        return self._halves(receipts, found)

    def _halves(self, receipts: Sequence[Receipt], found: Mapping[int, StoredMessage]) -> list[HalfMessage]:
        """Omit messages that were removed and, in a damaged store, messages whose real queue is missing."""
        messages = ((receipt, found.get(receipt.log_offset)) for receipt in receipts)
        return [
            self._half(receipt, stored)
            for receipt, stored in messages
            if stored and self._topics.find_by_key(stored.real_queue_key or 0)
        ]

    def _half(self, receipt: Receipt, stored: StoredMessage) -> HalfMessage:
        properties = decode_properties(stored.properties)
        due = properties.pop(HALF_DUE_US, None)
        is_checked = receipt.group.name == CHECKED_HALF_GROUP
        if is_checked and receipt.times:
            properties[CHECK_TIMES] = str(receipt.times)
        assert stored.real_queue_key is not None  # noqa: S101 - every half message has one
        return HalfMessage(
            receipt,
            stored._replace(properties=encode_properties(properties, 2 * MAX_PROPERTIES_BYTES)),
            self._topics.queue(stored.real_queue_key),
            None if due is None else self._schemes.noted(due),
            properties.get(PGROUP) if is_checked else None,
        )

    # Committing

    def is_kept(self, receipt: Receipt) -> bool:
        """Whether a delay scheme already has the message, so that the half message can only be committed."""
        return receipt.log_offset in self._kept

    def settle_kept(self, batch: Batch, receipt: Receipt) -> None:
        """Finish the commit of a half message for which ``is_kept`` is true, in this transaction."""
        self._receipts.settle(batch, receipt, Outcome.COMMITTED)
        batch.on_commit(partial(self._has_committed, [receipt], 1))

    def give_up(self, batch: Batch, receipt: Receipt, outcome: Outcome) -> None:
        """Settle a half message without a decision."""
        self._receipts.settle(batch, receipt, outcome)
        batch.on_commit(self._has_given_up)

    def _has_given_up(self) -> None:
        self.abandoned += 1

    def _has_committed(self, receipts: Sequence[Receipt], count: int) -> None:
        """Add ``count`` to the number of commits, and forget which of the half messages a scheme keeps.

        ``count`` is smaller than the number of receipts if some half messages are gone, and 0 if their topic
        was deleted.
        """
        self._kept.difference_update(receipt.log_offset for receipt in receipts)
        self.committed += count

    async def commit(self, receipts: Sequence[Receipt]) -> list[Receipt]:
        """Make the messages visible, each after its delay. Returns the committed ones; the others are gone.

        Runs to its end even if the caller is cancelled, because a message in a delay scheme cannot be rolled
        back.
        """
        for receipt in receipts:
            self._receipts.begin_settling(receipt)
        return await run_to_completion(self._commit(receipts))

    async def _commit(self, receipts: Sequence[Receipt]) -> list[Receipt]:
        kept: dict[Receipt, StoredMessage] = {}
        appended: dict[Receipt, StoredMessage] = {}
        try:
            halves = {half.receipt: half for half in await self.halves(receipts)}
            accepted = {receipt: self._accept_again(half) for receipt, half in halves.items()}
            now_ms_us = self._clock.now_us() // US_PER_MS * US_PER_MS
            for receipt, message in accepted.items():
                claim = message.claim
                if claim is not None:  # even if due now, because only the scheme knows an earlier attempt
                    at = claim._replace(due_us=max(claim.due_us, now_ms_us))
                    kept[receipt] = await self._schemes.keep(
                        at, message.draft, message.queue, receipt.log_offset
                    )
                    self._kept.add(receipt.log_offset)

            def work(batch: Batch) -> list[Receipt]:
                done = [receipt for receipt in accepted if receipt.state is State.SETTLING]
                self._intake.check(*(accepted[receipt] for receipt in done))
                for receipt in done:
                    if accepted[receipt].claim is None:
                        appended[receipt] = self._intake.append(accepted[receipt], batch)
                    self._receipts.settle(batch, receipt, Outcome.COMMITTED)
                return done

            done: list[Receipt] = await self._writer.commit(work)
        except BaseException as error:
            for receipt in receipts:
                self._receipts.reopen(receipt)
            if isinstance(error, TopicNotFoundError):  # the deletion of the topic may have missed the message
                self._schemes.discard(list(kept.values()))
                self._has_committed(receipts, 0)
            raise
        self._schemes.discard([parked for receipt, parked in kept.items() if receipt not in done])
        self._has_committed(receipts, len(done))
        now_us = self._clock.now_us()
        for receipt in done:
            half = halves[receipt]
            traffic = self._statistics.traffic_of(half.queue)
            traffic.count_commit(half.queue.topic, (now_us - half.stored.store_us) // US_PER_S)
            if half.claim is not None:
                traffic.count_timer(half.queue.topic, (half.claim.due_us - now_us) // US_PER_S)
            self._intake.notify_sent(accepted[receipt], appended.get(receipt) or kept[receipt])
        return done

    def _accept_again(self, half: HalfMessage) -> AcceptedMessage:
        """Accept the message as it was prepared, because the limit on its due time counts from that time."""
        stored = half.stored._replace(
            sys_flag=half.stored.sys_flag | COMMITTED_FLAG, prepared_offset=half.stored.log_offset
        )
        level = self._intake.level_of(decode_properties(stored.properties))
        return AcceptedMessage(half.queue, level, half.claim, draft_of(stored))
