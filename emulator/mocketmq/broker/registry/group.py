"""A consumer group, and how far it has come in each queue.

Both ways of consuming share one state per group and queue: ``next_offset``, below which everything was
taken or passed over, and the messages taken below it that are still open. What a group has not finished
begins at the first open one; that is the offset a pulling consumer reads, and from which lag counts.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from mocketmq.broker.registry.take import Take
from mocketmq.errors import GroupNotFoundError, NoPermissionError
from mocketmq.message.names import HALF_GROUP
from mocketmq.store.queues import Queue
from mocketmq.store.writer import Batch

_SAVE_OFFSET = (
    "INSERT INTO progress VALUES (?, ?, ?)"
    " ON CONFLICT (group_name, queue_key) DO UPDATE SET next_offset = excluded.next_offset"
)


class GroupConfig(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The other fields of upstream's SubscriptionGroupConfig, by its names (4.9.8; the rest 5.3.3).

    The first three have effects; the others are kept for clients that ask.
    """

    consume_enable: bool = True
    consume_broadcast_enable: bool = True
    notify_consumer_ids_changed_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    attributes: dict[str, str] = {}
    group_retry_policy: dict[str, Any] | None = None
    subscription_data_set: list[Any] | None = None


USUAL = GroupConfig()


class GroupQueue:
    """How far a group has come in one queue.

    ``reported`` is the offset that its pulling consumers read or reported last, None before that. They go
    back only by reporting less: what they report may well be below what others have acknowledged since.
    ``attempt`` is the consumer's id of the last pop in order, "" if there was none.
    """

    __slots__ = (
        "attempt",
        "group",
        "next_offset",
        "open",
        "pulled_offset",
        "queue",
        "reported",
        "saved_offset",
    )

    def __init__(self, group: "Group", queue: Queue, next_offset: int) -> None:
        self.group = group
        self.queue = queue
        self.next_offset = next_offset
        self.saved_offset: int | None = None  # what is stored of it
        self.reported: int | None = None
        self.pulled_offset = 0  # where the last pull of its consumers began
        self.attempt = ""
        self.open: dict[int, Take] = {}  # by queue offset

    @property
    def committed_offset(self) -> int:
        """The first offset that the group has not finished."""
        return min(min(self.open, default=self.next_offset), self.next_offset)

    @property
    def given_offset(self) -> int:
        """The first offset that was not delivered to the group, as far as is known."""
        return max(self.next_offset, self.pulled_offset)

    @property
    def lag(self) -> int:
        """How many messages from the committed offset to the end of the queue."""
        return self.queue.next_offset - max(self.committed_offset, self.queue.min_offset)

    @property
    def in_flight(self) -> int:
        """How many of its messages were received and not settled."""
        return sum(take.is_in_flight for take in self.open.values())

    def save(self, batch: Batch, next_offset: int) -> None:
        """Save ``next_offset``, but never past a take that has no row: a kill would lose it."""
        unsaved = min((offset for offset, take in self.open.items() if not take.has_row), default=next_offset)
        saved_offset = min(unsaved, next_offset)
        save_offset(batch, self.group.name, self.queue, saved_offset)
        batch.on_commit(partial(setattr, self, "saved_offset", saved_offset))


class Group:
    """A consumer group. ``lock`` is held while messages are chosen for one of its consumers."""

    def __init__(self, name: str, max_retries: int, retry_queues: int, config: GroupConfig = USUAL) -> None:
        self.name = name
        self.max_retries = max_retries
        self.retry_queues = retry_queues
        self.config = config
        self.is_deleted = False
        self.queues: dict[Queue, GroupQueue] = {}
        # Delayed messages that were pulled and not committed past yet: commit offsets by queue offset.
        self.pulled: dict[Queue, dict[int, int]] = {}
        self.takes: dict[int, Take] = {}  # all that are open, by commit offset
        self.available: dict[int, Take] = {}  # those of them that are free
        self.lock = asyncio.Lock()
        self._watching: set[asyncio.Event] = set()

    @contextmanager
    def announcing(self, event: asyncio.Event) -> Iterator[None]:
        """Set the event whenever a take is closed: more of its queue may be free to be taken in order."""
        self._watching.add(event)
        try:
            yield
        finally:
            self._watching.discard(event)

    def check_may_broadcast(self) -> None:
        """Raise NoPermissionError, in upstream's words, if each of its consumers may not get everything."""
        if not self.config.consume_broadcast_enable:
            raise NoPermissionError(f"the consumer group[{self.name}] can not consume by broadcast way")

    def check_exists(self) -> None:
        """Raise GroupNotFoundError if it was deleted while its consumer waited."""
        if self.is_deleted:
            raise GroupNotFoundError(f"subscription group not exist, {self.name}")

    def gives_up(self, take: "Take") -> bool:
        """Whether a message whose time has run out is a dead letter.

        Half messages never are, nor is what was popped: pop clients send dead letters themselves
        (docs/protocol/remoting.md §2.11).
        """
        is_over = take.times > 0 and take.reconsume_times + take.times > self.max_retries
        return is_over and not take.pop_ms and self.name != HALF_GROUP

    def place(self, queue: Queue) -> GroupQueue:
        """How far the group has come in the queue; it begins at the oldest message."""
        place = self.queues.get(queue)
        if place is None:
            place = self.queues[queue] = GroupQueue(self, queue, queue.min_offset)
        return place

    def take_closed(self) -> None:
        """Wake those who wait for it: more of a queue may be free to be taken in order."""
        for event in self._watching:
            event.set()

    def forget(self, queues: Iterable[Queue]) -> None:
        """Close all takes in queues that were emptied, and go on at their end."""
        for queue in queues:
            self.pulled.pop(queue, None)
            place = self.queues.get(queue)
            if place is not None:
                for take in list(place.open.values()):
                    take.close()
                place.next_offset = queue.next_offset
                place.saved_offset = None


def save_offset(batch: Batch, group_name: str, queue: Queue, offset: int) -> None:
    """Store that the group goes on at the offset after a restart."""
    batch.execute(_SAVE_OFFSET, (group_name, queue.key, offset))
