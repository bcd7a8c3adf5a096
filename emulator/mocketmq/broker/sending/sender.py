"""Sending: store a message, or several at once, for every front door."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from mocketmq.broker.sending.intake import AcceptedMessage, Intake
from mocketmq.errors import EmulatorError, IllegalMessageError, TopicNotFoundError, as_emulator_error
from mocketmq.message.message import Message, StoredMessage
from mocketmq.message.message_id import offset_message_id
from mocketmq.message.names import RETRY_PREFIX
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.schedule.timed_scheme import SendReceipt
from mocketmq.schedule.timer import Timer
from mocketmq.store.queue import Queue
from mocketmq.store.store import Store
from mocketmq.store.writer import Batch
from mocketmq.to_its_end import to_its_end
from mocketmq.turns import Turns

MAX_BATCH = 1_000
ACCEPTED_AT_ONCE = 256
"""Messages of a large batch that are accepted before others have their turn."""


class SendResult(NamedTuple):
    """A stored message and the queue that the sender asked for.

    For a delayed message ``stored`` is the parked record, as upstream answers, ``queue`` the real queue, and
    ``level`` the delay level, after clamping; ``receipt`` is what the sender is told of the record.
    """

    stored: StoredMessage
    queue: Queue
    level: int
    receipt: SendReceipt


class PlainSend(ABC):
    """A send on the fast path: the writer's work, and its waiter, as one object.

    It is for whoever wants no task for each send. A front door says how its client is told.
    """

    __slots__ = ("accepted", "sender")
    accepted: AcceptedMessage
    sender: "Sender"

    @abstractmethod
    def kept(self, sent: SendResult) -> None:
        """Tell that the message is durable."""

    @abstractmethod
    def refused(self, error: EmulatorError) -> None:
        """Tell that it is not, or that nobody knows. Never raises."""

    def __call__(self, batch: Batch) -> StoredMessage:
        """The work."""
        return self.sender.intake.append(self.accepted, batch)

    # As a Waiter of the writer's

    def done(self) -> bool:
        """It always waits."""
        return False

    def set_result(self, stored: StoredMessage) -> None:
        """The work is done."""
        try:
            self.kept(self.sender.sent_now(self.accepted, stored))
        except Exception as error:  # noqa: BLE001 - the writer has others to tell, whatever it is
            self.refused(as_emulator_error(error))

    def set_exception(self, error: EmulatorError) -> None:
        """The work has failed."""
        self.refused(error)


class Sender:
    """Stores messages; ``sent`` counts them since the start."""

    def __init__(self, store: Store, timer: Timer, schemes: SchemeSet, intake: Intake) -> None:
        self.sent = 0
        self.intake = intake
        self._writer = store.writer
        self._timer = timer
        self._schemes = schemes
        self._turns = Turns()

    async def send(self, message: Message, *, drops_wait: bool = False) -> SendResult:
        """Store a message; it is durable when this returns.

        ``DELAY`` or an absolute due time in its properties parks it. ``drops_wait`` and errors as
        :meth:`Intake.accept`; after an error nothing was stored.
        """
        accepted = await self.intake.accept(message, drops_wait=drops_wait)
        if accepted.claim is None:
            stored: StoredMessage = await self._writer.commit(partial(self.intake.append, accepted))
        else:
            stored = await self._schemes.keep(accepted.claim, accepted.draft, accepted.queue)
            await self._check_kept(accepted, stored)
        return self.sent_now(accepted, stored)

    def begin(self, send: PlainSend, message: Message, *, drops_wait: bool = False) -> bool:
        """As ``send``, without waiting, if there is nothing to wait for but the writer.

        Otherwise False, and nothing was done. Errors of judging are raised, later ones told to ``send``.
        """
        accepted = self.intake.accept_at_once(message, drops_wait=drops_wait)
        if accepted is None or accepted.claim is not None:
            return False
        send.sender, send.accepted = self, accepted
        self._writer.put(send, send)
        return True

    def sent_now(self, accepted: AcceptedMessage, stored: StoredMessage) -> SendResult:
        """Count a message that has become durable; what its sender is told."""
        self.sent += 1
        return self._result(accepted, stored)

    async def send_batch(self, messages: Sequence[Message]) -> list[SendResult]:
        """Store 1 to 1,000 messages, all or none. Raises as ``send``.

        Those with an absolute due time are kept first, and taken back when the transaction of the others
        fails. Only a kill between the two keeps a part of an unacknowledged batch. It goes to its end even if
        the caller goes away.
        """
        accepted: list[AcceptedMessage] = []
        for message in messages:
            accepted.append(await self.intake.accept(message))
            if len(accepted) % ACCEPTED_AT_ONCE == 0:
                await self._turns.next()
        stored = await to_its_end(self._store_all(accepted))
        self.sent += len(stored)
        return list(map(self._result, accepted, stored))

    async def send_together(self, messages: Iterable[Message]) -> list[SendResult]:
        """Store messages of one topic side by side in one queue, all or none.

        Raises as ``send``, and IllegalMessageError for a message that is to be delayed or a retry.
        """
        accepted: list[AcceptedMessage] = []
        for message in messages:
            if message.topic.startswith(RETRY_PREFIX):
                raise IllegalMessageError(
                    "topic", f"batch request does not support retry group {message.topic}"
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
                await self._turns.next()
        stored: list[StoredMessage] = await self._writer.commit(
            lambda batch: [self.intake.append(one, batch) for one in accepted]
        )
        self.sent += len(stored)
        return list(map(self._result, accepted, stored))

    async def _check_kept(self, accepted: AcceptedMessage, stored: StoredMessage) -> None:
        """As :meth:`Intake.check`: a deletion of the topic may have missed what was just being kept."""
        try:
            self.intake.check(accepted)
        except TopicNotFoundError:
            await self._take_back([stored])
            raise

    async def _store_all(self, accepted: Sequence[AcceptedMessage]) -> list[StoredMessage]:
        kept = await self._keep_all(accepted)

        def work(batch: Batch) -> list[StoredMessage]:
            self.intake.check(*accepted)
            return [next(waiting) if one.claim else self.intake.append(one, batch) for one in accepted]

        waiting = iter(kept)
        try:
            stored: list[StoredMessage] = await self._writer.commit(work)
        except BaseException:
            await self._take_back(kept)
            raise
        return stored

    async def _keep_all(self, accepted: Sequence[AcceptedMessage]) -> list[StoredMessage]:
        results = await asyncio.gather(
            *(self._schemes.keep(one.claim, one.draft, one.queue) for one in accepted if one.claim),
            return_exceptions=True,
        )
        kept = [result for result in results if not isinstance(result, BaseException)]
        failure = next((result for result in results if isinstance(result, BaseException)), None)
        if failure is not None:
            await self._take_back(kept)
            raise failure
        return kept

    async def _take_back(self, kept: Sequence[StoredMessage]) -> None:
        if kept:
            async with self._timer.lock:
                self._schemes.discard(kept)

    def _result(self, accepted: AcceptedMessage, stored: StoredMessage) -> SendResult:
        if accepted.claim is not None:
            receipt = accepted.claim.scheme.receipt(stored, accepted.queue)
        else:
            message_id = offset_message_id(stored.store_host, stored.log_offset)
            receipt = SendReceipt(message_id, accepted.queue.queue_id, stored.queue_offset)
        return SendResult(stored, accepted.queue, accepted.level, receipt)
