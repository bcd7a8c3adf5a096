"""The sender: stores one message or a batch, for every front door."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial

from mocketmq.broker.sending.intake import AcceptedMessage, Intake
from mocketmq.broker.sending.kept_messages import KeptMessages
from mocketmq.errors import EmulatorError, IllegalMessageError, as_emulator_error
from mocketmq.event_loop import EventLoopTurns, run_to_completion
from mocketmq.message.message import Message, StoredMessage
from mocketmq.message.message_id import offset_message_id
from mocketmq.message.message_types import LITE_TOPIC_PROPERTY, PRIORITY_PROPERTY
from mocketmq.message.names import RETRY_PREFIX
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.schedule.send_receipt import SendReceipt
from mocketmq.schedule.timer import Timer
from mocketmq.store.batch import Batch
from mocketmq.store.queue import Queue
from mocketmq.store.store import Store

MAX_BATCH = 1_000
ACCEPTED_AT_ONCE = 256
"""Number of messages of a large batch that are accepted before other tasks get a turn."""


class SendResult:
    """A stored message, and the queue where it becomes visible.

    For a delayed message ``stored`` is the parked record, as in RocketMQ's response, ``queue`` the real
    queue, and ``level`` the delay level after clamping. ``receipt`` is the position reported to the sender.
    """

    __slots__ = ("level", "queue", "receipt", "stored")

    def __init__(self, stored: StoredMessage, queue: Queue, level: int, receipt: SendReceipt) -> None:
        self.stored = stored
        self.queue = queue
        self.level = level
        self.receipt = receipt


class PlainSends(ABC):
    """A run of sends on the fast path, one or several: the writer's work and its waiter in one object.

    A run saves a task for each send, and the sends of a run share what does not depend on the message. A
    front door implements how its client gets the responses.
    """

    __slots__ = ("accepted", "sender")
    accepted: Sequence[AcceptedMessage]
    sender: "Sender"

    @abstractmethod
    def kept(self, sent: Sequence[SendResult | EmulatorError]) -> None:
        """Respond that the messages are durable, except those with an error as their result."""

    @abstractmethod
    def refused(self, error: EmulatorError) -> None:
        """Respond that no message is stored, or that it is unknown whether they are. Must not raise."""

    def __call__(self, batch: Batch) -> list[StoredMessage | EmulatorError]:
        """Do the work in the writer's transaction."""
        return self.sender.intake.append_run(self.accepted, batch)

    # Implements the writer's Waiter

    def done(self) -> bool:
        """Return False, because the sends cannot be cancelled."""
        return False

    def set_result(self, stored: list[StoredMessage | EmulatorError]) -> None:
        """Respond after the messages have become durable, except refused ones."""
        try:
            self.kept([self._sent(one, kept) for one, kept in zip(self.accepted, stored, strict=True)])
        except Exception as error:  # noqa: BLE001 - the writer has other waiters to notify
            self.refused(as_emulator_error(error))

    def set_exception(self, error: EmulatorError) -> None:
        """Respond after a failure."""
        self.refused(error)

    def _sent(
        self, accepted: AcceptedMessage, stored: StoredMessage | EmulatorError
    ) -> SendResult | EmulatorError:
        if isinstance(stored, EmulatorError):
            return stored
        try:
            return self.sender.sent_now(accepted, stored)
        except Exception as error:  # noqa: BLE001 - a defect spares the other sends of the run
            return as_emulator_error(error)


class Sender:
    """Stores messages. ``sent`` counts messages since the start."""

    def __init__(self, store: Store, timer: Timer, schemes: SchemeSet, intake: Intake) -> None:
        self.sent = 0
        self.intake = intake
        self.kept_messages = KeptMessages(timer, schemes, intake)
        self._writer = store.writer
        self._turns = EventLoopTurns()

    async def send(self, message: Message, *, drops_wait: bool = False) -> SendResult:
        """Store a message durably.

        ``DELAY`` or an absolute due time in the properties parks the message. For ``drops_wait`` and the
        errors see :meth:`Intake.accept`. After an error nothing is stored.
        """
        accepted = self.intake.accept_at_once(message, drops_wait=drops_wait)
        if accepted is None:
            accepted = await self.intake.accept(message, drops_wait=drops_wait)
        if accepted.claim is None:
            stored: StoredMessage = await self._writer.commit(partial(self.intake.append, accepted))
        else:
            stored = await self.kept_messages.keep(accepted, accepted.claim)
        return self.sent_now(accepted, stored)

    def begin_plain(self, sends: PlainSends, accepted: Sequence[AcceptedMessage]) -> None:
        """Start sends on the fast path, of messages from :meth:`Intake.accept_run`.

        Raises the errors of the writer at once. ``sends`` gets later errors.
        """
        sends.sender, sends.accepted = self, accepted
        self._writer.put(sends, sends)

    def sent_now(self, accepted: AcceptedMessage, stored: StoredMessage) -> SendResult:
        """Count a message that has become durable, and return its result."""
        self.sent += 1
        self.intake.count(accepted)
        self.intake.notify_sent(accepted, stored)
        return self._result(accepted, stored)

    async def send_batch(self, messages: Sequence[Message]) -> list[SendResult]:
        """Store 1 to 1,000 messages, all or none. Raises the errors of ``send``.

        Messages with an absolute due time are kept first, and removed if the transaction of the others fails.
        Only a kill between the two steps leaves a part of an unacknowledged batch. The method runs to its end
        even if the caller is cancelled.
        """
        accepted: list[AcceptedMessage] = []
        for message in messages:
            accepted.append(await self.intake.accept(message))
            if len(accepted) % ACCEPTED_AT_ONCE == 0:
                await self._turns.next_turn()
        stored = await run_to_completion(self._store_all(accepted))
        return list(map(self.sent_now, accepted, stored))

    async def send_together(self, messages: Iterable[Message]) -> list[SendResult]:
        """Store messages of one topic next to each other in one queue, all or none.

        Raises the errors of ``send``, and IllegalMessageError for a delayed message, a retry, or a message
        with a priority or a lite topic.
        """
        accepted: list[AcceptedMessage] = []
        for message in messages:
            if message.topic.startswith(RETRY_PREFIX):
                raise IllegalMessageError(
                    "topic", f"batch request does not support retry group {message.topic}"
                )
            for each in (PRIORITY_PROPERTY, LITE_TOPIC_PROPERTY):
                each.check_absent(
                    message.properties, "the messages of a batch share a queue. Send the message by itself"
                )
            if accepted:
                message.queue_id = accepted[0].queue.queue_id
            one = await self.intake.accept(message)
            if one.level or one.claim:
                raise IllegalMessageError(
                    "properties", "a message of a batch cannot be delayed; send it by itself"
                )
            accepted.append(one)
            if len(accepted) % ACCEPTED_AT_ONCE == 0:
                await self._turns.next_turn()
        stored: list[StoredMessage] = await self._writer.commit(
            lambda batch: [self.intake.append(one, batch) for one in accepted]
        )
        return list(map(self.sent_now, accepted, stored))

    async def _store_all(self, accepted: Sequence[AcceptedMessage]) -> list[StoredMessage]:
        kept = await self.kept_messages.keep_all(accepted)

        def work(batch: Batch) -> list[StoredMessage]:
            self.intake.check(*accepted)
            return [next(waiting) if one.claim else self.intake.append(one, batch) for one in accepted]

        waiting = iter(kept)
        return await self.kept_messages.stored_with(kept, self._writer.commit(work))

    def _result(self, accepted: AcceptedMessage, stored: StoredMessage) -> SendResult:
        if accepted.claim is not None:
            receipt = accepted.claim.scheme.receipt(stored, accepted.queue)
        else:
            message_id = offset_message_id(stored.store_host, stored.log_offset)
            receipt = SendReceipt(message_id, accepted.queue.queue_id, stored.queue_offset)
        return SendResult(stored, accepted.queue, accepted.level, receipt)
