"""The delay scheme ``slots``; a message can be cancelled by another one.

The message that cancels bears ``TIMER_DEL_UNIQKEY`` with the other's unique key, alone or as
``<topic>+<key>`` (docs/protocol/remoting.md §5.6), and goes to the same topic. Unlike upstream's, it takes
effect at once: the answer to its sender says whether the other was still waiting.
"""

from functools import partial

from mocketmq.message.message import Draft, StoredMessage
from mocketmq.message.properties import TIMER_DEL_UNIQKEY, decode_properties
from mocketmq.schedule.scheme_set import not_pending
from mocketmq.store.queue import Queue
from mocketmq_compat.delay.stored_scheme import StoredScheme


class Slots(StoredScheme):
    """Records in slots, with messages that cancel others."""

    def due_us(self, properties: dict[str, str], level: int) -> int | None:
        """As the base class; now for a message that cancels another."""
        if level or TIMER_DEL_UNIQKEY not in properties:
            return super().due_us(properties, level)
        others = {name: value for name, value in properties.items() if name != TIMER_DEL_UNIQKEY}
        super().due_us(others, level)  # refuses a malformed time, although it is not needed
        return self.context.store.clock.now_us()

    async def keep(self, draft: Draft, queue: Queue, due_us: int, number: int | None = None) -> StoredMessage:
        """As the base class. Raises NotPendingError when there is nothing to cancel; then nothing is kept."""
        name = decode_properties(draft.properties).get(TIMER_DEL_UNIQKEY)
        if name is None:
            return await super().keep(draft, queue, due_us, number)
        unique_key = name.removeprefix(f"{queue.topic}+")
        keys = {each.key for each in self.context.topics.get(queue.topic).queues}
        async with self.context.leaving:
            found = [one for one in await self.find(unique_key) if one.real_queue_key in keys]
            cancelled = await self.context.store.writer.commit(partial(self.cancel, messages=found))
        if not cancelled and number is None:  # a half message may be committed twice
            raise not_pending(unique_key)
        number = self.context.numbers.next() if number is None else number
        now_us = self.context.store.clock.now_us()
        return self.kept(draft, queue, due_us, number, now_us, self.context.store.writer.store_host)
