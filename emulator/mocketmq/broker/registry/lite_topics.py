"""Lite topics, RIP-83: the named queues of topics of type ``lite``, each created by its first message.

Each lite topic is one :class:`LiteQueue` and one row, without any other state, so that there may be many. The
lite topics of a parent are kept in order of their newest messages, which determine when they expire.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from mocketmq.errors import LiteTopicQuotaError
from mocketmq.store.batch import Batch
from mocketmq.store.queue import LiteQueue, Queue

MAX_LITE_TOPICS: Final = 20_000
"""Maximum number of lite topics of all parents together (maxLmqConsumeQueueNum, 5.5.0)."""

_RETIRED: Final = 1_000
"""Number of deleted lite topics that can still be looked up by key, for readers of older records."""
_SAVE: Final = "INSERT INTO queues VALUES (?, ?, ?, 0, 0, 0, ?)"
_DELETE: Final = "DELETE FROM queues WHERE key = ?"


class LiteTopics:
    """All lite topics, by parent.

    The queues of lite topics are added to ``by_key``, which has the queues of all topics. ``take_key``
    returns a new key. ``on_made`` is called for each new lite topic, which may be the next to expire.
    """

    def __init__(self, by_key: dict[int, Queue], take_key: Callable[[], int]) -> None:
        self.count = 0
        self.on_made: Callable[[], None] = lambda: None
        self._by_key = by_key
        self._take_key = take_key
        self._by_parent: dict[str, OrderedDict[str, LiteQueue]] = {}
        self._retired: deque[int] = deque()

    def load(self, queues: Iterable[LiteQueue]) -> None:
        """Add the stored lite topics."""
        for queue in sorted(queues, key=lambda one: (one.last_us, one.key)):
            self._add(queue)

    def forget_all(self) -> None:
        """Forget all lite topics, before the lite topics of a restored store are loaded."""
        self.count = 0
        self._by_parent.clear()
        self._retired.clear()

    def __iter__(self) -> Iterator[LiteQueue]:
        return (queue for lites in self._by_parent.values() for queue in lites.values())

    @property
    def parents(self) -> Collection[str]:
        """The topics that have lite topics."""
        return self._by_parent.keys()

    def of(self, parent: str) -> Collection[LiteQueue]:
        """The lite topics of a topic, ordered by the time of their newest messages."""
        lites = self._by_parent.get(parent)
        return () if lites is None else lites.values()

    def find(self, parent: str, name: str) -> LiteQueue | None:
        lites = self._by_parent.get(parent)
        return None if lites is None else lites.get(name)

    def for_send(self, parent: str, name: str) -> LiteQueue:
        """The lite topic for a message, or a new one, which exists once :meth:`prepare` is called for it.

        Raises LiteTopicQuotaError.
        """
        return self.find(parent, name) or self._new(parent, name)

    def _new(self, parent: str, name: str) -> LiteQueue:
        if self.count >= MAX_LITE_TOPICS:
            raise LiteTopicQuotaError(
                f"there are already {self.count} lite topics; allowed: at most {MAX_LITE_TOPICS}. Use"
                " fewer, or let them"
                " expire by the attribute lite.topic.expiration of their parent topic"
            )
        return LiteQueue(self._take_key(), parent, name)

    def prepare(self, batch: Batch, queue: LiteQueue) -> LiteQueue:
        """Return the queue for a message in this transaction, and create the lite topic if it is new.

        Returns another queue if, since the look-up, another message has created the lite topic or the lite
        topic was deleted. Raises LiteTopicQuotaError.
        """
        known = self.find(queue.topic, queue.name)
        if known is None:
            known = self._new(queue.topic, queue.name) if queue.is_saved else queue
            batch.execute(_SAVE, (known.key, known.topic, known.queue_id, known.name))
            self._add(known)
            known.is_saved = True
            batch.on_rollback(partial(self._undo, known))
            batch.on_commit(self.on_made)
        batch.on_commit(partial(self._stored, known, batch.now_us))
        return known

    def _undo(self, queue: LiteQueue) -> None:
        queue.is_saved = False
        self._drop(queue)

    def _stored(self, queue: LiteQueue, now_us: int) -> None:
        queue.last_us = now_us
        if self.find(queue.topic, queue.name) is queue:
            self._by_parent[queue.topic].move_to_end(queue.name)

    def delete(self, batch: Batch, queue: LiteQueue) -> None:
        """Delete the lite topic in this transaction. The caller deletes its messages and the groups' state.

        A message that arrives from now on creates a new lite topic with this name.
        """
        self._drop(queue)
        batch.execute(_DELETE, (queue.key,))
        batch.on_rollback(partial(self._restore, queue))

    def _restore(self, queue: LiteQueue) -> None:
        with suppress(ValueError):  # pushed out by later deletions of the same transaction
            self._retired.remove(queue.key)
        self._add(queue)
        self._by_parent[queue.topic].move_to_end(queue.name, last=False)

    def _add(self, queue: LiteQueue) -> None:
        self._by_parent.setdefault(queue.topic, OrderedDict())[queue.name] = queue
        self._by_key[queue.key] = queue
        self.count += 1

    def _drop(self, queue: LiteQueue) -> None:
        lites = self._by_parent[queue.topic]
        del lites[queue.name]
        self.count -= 1
        if not lites:
            del self._by_parent[queue.topic]
        self._retired.append(queue.key)
        if len(self._retired) > _RETIRED:
            self._by_key.pop(self._retired.popleft(), None)
