"""Lets a message of the delay scheme ``slots`` cancel another message.

The cancelling message carries the other's unique key in ``TIMER_DEL_UNIQKEY``, alone or as ``<topic>+<key>``
(docs/protocol/remoting.md §5.6), and is sent to the same topic. Unlike upstream, it takes effect at once, so
the response tells its sender whether the other message was still pending.
"""

from functools import partial

from mocketmq.message.message import Draft, StoredMessage
from mocketmq.message.properties import TIMER_DEL_UNIQKEY, decode_properties
from mocketmq.schedule.scheme_set import not_pending
from mocketmq.store.queue import Queue
from mocketmq_compat.delay.stored_scheme import StoredScheme


class Slots(StoredScheme):
    """The scheme ``slots``, in which a message can cancel another."""

    def due_us(self, properties: dict[str, str], level: int) -> int | None:
        """Like the base class, but a cancelling message is due now."""
        if level or TIMER_DEL_UNIQKEY not in properties:
            return super().due_us(properties, level)
        others = {name: value for name, value in properties.items() if name != TIMER_DEL_UNIQKEY}
        super().due_us(others, level)  # to refuse a malformed time, although it has no effect
        return self.context.store.clock.now_us()

    async def keep(self, draft: Draft, queue: Queue, due_us: int, number: int | None = None) -> StoredMessage:
        """Like the base class. Raises NotPendingError when the message to cancel is not pending."""
        name = decode_properties(draft.properties).get(TIMER_DEL_UNIQKEY)
        if name is None:
            return await super().keep(draft, queue, due_us, number)
        unique_key = name.removeprefix(f"{queue.topic}+")
        keys = {each.key for each in self.context.topics.get(queue.topic).queues}
        async with self.context.leaving:
            found = [one for one in await self.find_by_key(unique_key) if one.real_queue_key in keys]
            cancelled = await self.context.store.writer.commit(partial(self.cancel, messages=found))
        if not cancelled and number is None:  # with a number, this may be a repeated commit of a half message
            raise not_pending(unique_key)
        number = self.context.numbers.next() if number is None else number
        now_us = self.context.store.clock.now_us()
        return self.kept(draft, queue, due_us, number, now_us, self.context.store.writer.store_host)
