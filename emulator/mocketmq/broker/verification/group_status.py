"""The status of messages in a consumer group: in flight, acknowledged, to be retried, dead."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
from mocketmq.broker.consuming.receipt import Outcome, State
from mocketmq.broker.verification.sent_messages import QueuePosition, SentMessage
from mocketmq.store.database import Database
from mocketmq.store.messages import MAX_AT_ONCE

_GROUPS_AT_ONCE: Final = 50
"""Maximum number of groups whose receipts are read in one query."""
_SETTLED = """
SELECT group_name, log_offset, times, outcome FROM receipts
WHERE group_name IN ({}) AND log_offset IN ({}) AND settled_us IS NOT NULL"""

Settled = Mapping[int, tuple[int, str]]
"""Number of takes of a record before it was settled, and the outcome, by log offset."""


class GroupState(StrEnum):
    """A message's state in a group. A dead letter stays dead there, even if another group consumes it."""

    NOT_DELIVERED = "not delivered"
    NOT_TAKEN = "not taken"
    IN_FLIGHT = "in flight"
    POSTPONED = "postponed"
    """The consumer has changed the invisible time, after a failure or because it needs longer."""
    TO_BE_REDELIVERED = "to be redelivered"
    TO_BE_RETRIED = "to be retried"
    ACKNOWLEDGED = "acknowledged"
    PASSED = "passed over"
    """The group's filter did not match the message."""
    DEAD = "dead"


class GroupStatus(msgspec.Struct, frozen=True):
    """A message's state, the number of its takes by receipt, and the end of the state, if known.

    ``parked`` is the log offset of a retry that is parked.
    """

    state: GroupState
    times: int = 0
    until_us: int | None = None
    parked: int | None = None


async def group_statuses(
    database: Database, group: ConsumingGroup, some: Sequence[SentMessage]
) -> list[GroupStatus]:
    """Read the status of each of the messages. Raises a StoreError."""
    positions = [sent.current_position(group.name) for sent in some]
    closed = [
        position.log_offset
        for position in positions
        if position and position.log_offset not in group.receipts
    ]
    settled = (await settled_by_group(database, [group.name], closed)).get(group.name, {})
    return [
        _status_of(group, sent, position, settled) for sent, position in zip(some, positions, strict=True)
    ]


async def settled_by_group(
    database: Database, group_names: Sequence[str], log_offsets: Sequence[int]
) -> Mapping[str, Settled]:
    """Read which of the records each of the groups has settled. Raises a StoreError."""
    found: dict[str, dict[int, tuple[int, str]]] = defaultdict(dict)
    for first_group in range(0, len(group_names), _GROUPS_AT_ONCE):
        groups = group_names[first_group : first_group + _GROUPS_AT_ONCE]
        for first in range(0, len(log_offsets), MAX_AT_ONCE):
            some = log_offsets[first : first + MAX_AT_ONCE]
            sql = _SETTLED.format(",".join("?" * len(groups)), ",".join("?" * len(some)))
            for name, log_offset, times, outcome in await database.rows(sql, (*groups, *some)):
                found[name][log_offset] = (times, outcome)
    return found


def _status_of(
    group: ConsumingGroup, sent: SentMessage, position: QueuePosition | None, settled: Settled
) -> GroupStatus:
    again = sent.again.get(group.name)
    if again is not None and again.is_dead:
        return GroupStatus(GroupState.DEAD)
    if position is None:
        if again is not None:
            return GroupStatus(GroupState.TO_BE_RETRIED, until_us=again.due_us, parked=again.record)
        return GroupStatus(GroupState.NOT_DELIVERED, until_us=sent.due_us)
    return status_at(group, position, settled)


def status_at(group: ConsumingGroup, position: QueuePosition, settled: Settled) -> GroupStatus:
    """The status of the record in the group."""
    take = group.receipts.get(position.log_offset)
    if take is not None:
        if take.state is State.BEHIND:
            return GroupStatus(GroupState.ACKNOWLEDGED, take.times)
        if take.is_in_flight:
            state = GroupState.POSTPONED if take.waits_for_retry else GroupState.IN_FLIGHT
            return GroupStatus(state, take.times, take.visible_us)
        return GroupStatus(GroupState.TO_BE_REDELIVERED if take.times else GroupState.NOT_TAKEN, take.times)
    times, outcome = settled.get(position.log_offset, (0, None))
    if outcome == Outcome.ACKED:
        return GroupStatus(GroupState.ACKNOWLEDGED, times)
    group_queue = group.find_position(position.queue)
    if group_queue is None:
        return GroupStatus(GroupState.NOT_TAKEN, times)
    if position.queue_offset < group_queue.committed_offset:
        # Pulling consumers acknowledge by their committed offset. Receivers skip messages by their filter.
        is_acked = group_queue.reported is not None or outcome is not None
        return GroupStatus(GroupState.ACKNOWLEDGED if is_acked else GroupState.PASSED, times)
    is_pulled = group_queue.reported is not None and position.queue_offset < group_queue.pulled_offset
    if not is_pulled:
        return GroupStatus(GroupState.NOT_TAKEN, times)
    return GroupStatus(
        GroupState.TO_BE_REDELIVERED if group_queue.is_deserted else GroupState.IN_FLIGHT, times
    )
