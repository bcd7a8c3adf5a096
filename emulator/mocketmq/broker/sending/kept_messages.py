"""Messages with an absolute due time, which their delay schemes keep outside the writer's transaction."""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

from mocketmq.broker.sending.intake import AcceptedMessage, Intake
from mocketmq.errors import TopicNotFoundError
from mocketmq.event_loop import completed
from mocketmq.message.message import StoredMessage
from mocketmq.schedule.scheme_set import Claim, SchemeSet
from mocketmq.schedule.timer import Timer

T = TypeVar("T")


class KeptMessages:
    """Gives accepted messages to their schemes, and takes them back if they must not be delivered."""

    def __init__(self, timer: Timer, schemes: SchemeSet, intake: Intake) -> None:
        self._timer = timer
        self._schemes = schemes
        self._intake = intake

    @completed
    async def keep(self, accepted: AcceptedMessage, claim: Claim) -> StoredMessage:
        """Give a message to the scheme that claims it. Raises TopicNotFoundError if its topic was deleted."""
        stored = await self._schemes.keep(claim, accepted.draft, accepted.queue)
        try:
            self._intake.check(accepted)  # again: a deletion of the topic may have missed the message
        except TopicNotFoundError:
            await self.take_back([stored])
            raise
        return stored

    async def keep_all(self, accepted: Iterable[AcceptedMessage]) -> list[StoredMessage]:
        """Give the messages that have a claim to their schemes: all of them or, on an error, none."""
        results = await asyncio.gather(
            *(self._schemes.keep(one.claim, one.draft, one.queue) for one in accepted if one.claim),
            return_exceptions=True,
        )
        kept = [result for result in results if not isinstance(result, BaseException)]
        failure = next((result for result in results if isinstance(result, BaseException)), None)
        try:
            if failure is not None:
                await self.take_back(kept)
                raise failure
            return kept
        finally:
            del failure, results  # the traceback of the failure refers to this frame

    async def stored_with(self, kept: Sequence[StoredMessage], storing: Awaitable[T]) -> T:
        """Await ``storing``, which stores data for the kept messages. If it fails, take the messages back."""
        try:
            return await storing
        except BaseException:
            await self.take_back(kept)
            raise

    async def take_back(self, kept: Sequence[StoredMessage]) -> None:
        """Forget kept messages."""
        if kept:
            async with self._timer.lock:
                self._schemes.discard(kept)
