"""Finds the states of messages from their newest records: pending, dead, or the progress of consumers."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup, ConsumingGroups
from mocketmq.broker.consuming.receipt import Outcome
from mocketmq.broker.life import Consumption, Lives, MessageState, state_of
from mocketmq.broker.message_records import RecordRow
from mocketmq.broker.registry.clients import BROADCASTING
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.verification.group_status import (
    GroupState,
    GroupStatus,
    Settled,
    settled_by_group,
    status_at,
)
from mocketmq.broker.verification.sent_messages import QueuePosition
from mocketmq.message.message import RecordKind
from mocketmq.message.names import RETRY_PREFIX
from mocketmq.store.database import Database
from mocketmq.store.queue import Queue

_SLICE: Final = 500
"""Number of groups, or of states in groups, that are handled before other tasks get a turn."""

_BY_RANK: Final[tuple[tuple[GroupState, Consumption], ...]] = (
    (GroupState.IN_FLIGHT, "in flight"),
    (GroupState.POSTPONED, "to be retried"),
    (GroupState.TO_BE_REDELIVERED, "to be redelivered"),
    (GroupState.ACKNOWLEDGED, "acknowledged"),
)
"""State of a message whose groups differ: the first of these that occurs in a group."""
_VISIBLE: Final[tuple[RecordKind, ...]] = ("sent", "committed", "delivered", "retried")
NEWEST_KINDS: Final[Mapping[MessageState | Consumption, tuple[RecordKind, ...]]] = {
    "prepared": ("prepared",),
    "rolled back": ("prepared",),
    "abandoned": ("abandoned",),
    "stored": ("sent", "committed", "retried"),
    # A committed half message, of kind ``prepared``, may be pending outside the store.
    "pending": ("parked", "retried", "held", "prepared"),
    "cancelled": ("parked", "retried", "held", "cancelled"),
    "lost": ("sent", "committed", "prepared", "parked", "retried", "cancelled", "dead"),
    "delivered": ("delivered",),
    "dead": ("dead",),
    "never taken": _VISIBLE,
    "in flight": _VISIBLE,
    "to be redelivered": _VISIBLE,
    "to be retried": _VISIBLE,
    "acknowledged": _VISIBLE,
}
"""Possible kinds of the newest record of a message, by the message's state."""


class StatusAtGroup(NamedTuple):
    """The state of a message in a consumer group."""

    group: str
    status: GroupStatus


class StateOfMessage(NamedTuple):
    """The state of a message, and its consumption, which is None if consumers cannot see the message.

    ``groups`` has every group that consumes the queue of the newest record.
    """

    state: MessageState
    consumption: Consumption | None
    groups: Sequence[StatusAtGroup] = ()


class MessageStates:
    """Finds states. Broadcast groups are omitted, because their consumers keep the offsets."""

    def __init__(self, database: Database, registry: Registry, groups: ConsumingGroups, lives: Lives) -> None:
        self._database = database
        self._topics = registry.topics
        self._clients = registry.clients
        self._groups = groups
        self._lives = lives

    async def of(self, newest: Sequence[RecordRow]) -> list[StateOfMessage]:
        """The states of messages, given their newest records."""
        by_queue = await self._groups_by_queue({self._topics.queue(row.queue_key) for row in newest})
        names = {group.name for groups in by_queue.values() for group in groups}
        settled = await settled_by_group(self._database, sorted(names), [row.log_offset for row in newest])
        found: list[StateOfMessage] = []
        left = _SLICE
        for row in newest:
            groups = by_queue.get(self._topics.queue(row.queue_key), [])
            found.append(self._state(row, groups, settled))
            left -= 1 + len(groups)
            if left < 0:
                await asyncio.sleep(0)
                left = _SLICE
        return found

    def _state(
        self, row: RecordRow, groups: Sequence[ConsumingGroup], settled: Mapping[str, Settled]
    ) -> StateOfMessage:
        if row.kind == "prepared" and row.intervention != "lost":
            outcomes = [settled.get(group.name, {}).get(row.log_offset, (0, None))[1] for group in groups]
            # A committed half message has a newer record, or is pending outside of the store.
            return StateOfMessage(state_of(row, outcomes, is_pending=Outcome.COMMITTED in outcomes), None)
        state = state_of(row, (), is_pending=self._lives.is_pending(row))
        is_retry = self._lives.goal(row).topic.startswith(RETRY_PREFIX)
        if state == "pending":
            return StateOfMessage(state, "to be retried" if is_retry else None)
        if state == "lost" or row.kind not in _VISIBLE:
            return StateOfMessage(state, None)
        place = QueuePosition(
            self._topics.queue(row.queue_key), row.queue_offset, row.log_offset, row.store_us
        )
        statuses = [
            StatusAtGroup(group.name, status_at(group, place, settled.get(group.name, {})))
            for group in groups
        ]
        states = {each.status.state for each in statuses}
        default: Consumption = "to be redelivered" if is_retry else "never taken"
        consumption = next((word for at, word in _BY_RANK if at in states), default)
        return StateOfMessage(state, consumption, statuses)

    async def _groups_by_queue(self, queues: set[Queue]) -> Mapping[Queue, list[ConsumingGroup]]:
        found: dict[Queue, list[ConsumingGroup]] = defaultdict(list)
        for number, group in enumerate(self._groups):
            live = self._clients.find_connected_group(group.name)
            if live is None or live.model != BROADCASTING:
                for queue in queues & (group.queues.keys() | group.uncommitted.keys()):
                    found[queue].append(group)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return found
