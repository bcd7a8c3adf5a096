"""How messages stand at a consumer group: in flight, acknowledged, to be retried, dead."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
from mocketmq.broker.consuming.receipt import Outcome, State
from mocketmq.broker.verification.sent_message import QueuePlace, SentMessage
from mocketmq.store.database import Database
from mocketmq.store.messages import MAX_AT_ONCE

_SETTLED = (
    "SELECT log_offset, times, outcome FROM receipts"
    " WHERE group_name = ? AND settled_us IS NOT NULL AND log_offset IN ({marks})"
)


class At(StrEnum):
    """How a message stands at a group. A dead one stands by whether somebody consumes dead letters, too."""

    NOT_DELIVERED = "not delivered"
    NOT_TAKEN = "not taken"
    IN_FLIGHT = "in flight"
    TO_BE_REDELIVERED = "to be redelivered"
    TO_BE_RETRIED = "to be retried"
    ACKNOWLEDGED = "acknowledged"
    PASSED = "passed over"
    """The group went past it without having been given it: its filter refused it."""
    DEAD = "dead"


class Standing(NamedTuple):
    """How a message stands, how often it was taken by receipt, and until when it stands so, if known."""

    at: At
    times: int = 0
    until_us: int | None = None


async def standings(database: Database, group: ConsumingGroup, some: Sequence[SentMessage]) -> list[Standing]:
    """How each of the messages stands at the group. Raises a StoreError."""
    places = [sent.last_at(group.name) for sent in some]
    closed = [place.log_offset for place in places if place and place.log_offset not in group.receipts]
    settled: dict[int, tuple[int, str]] = {}
    for first in range(0, len(closed), MAX_AT_ONCE):
        part = closed[first : first + MAX_AT_ONCE]
        sql = _SETTLED.format(marks=",".join("?" * len(part)))
        for log_offset, times, outcome in await database.rows(sql, (group.name, *part)):
            settled[log_offset] = (times, outcome)
    return [_standing(group, sent, place, settled) for sent, place in zip(some, places, strict=True)]


def _standing(
    group: ConsumingGroup, sent: SentMessage, place: QueuePlace | None, settled: Mapping[int, tuple[int, str]]
) -> Standing:
    again = sent.again.get(group.name)
    if again is not None and again.is_dead:
        return Standing(At.DEAD)
    if place is None:
        if again is not None:
            return Standing(At.TO_BE_RETRIED, until_us=again.due_us)
        return Standing(At.NOT_DELIVERED, until_us=sent.due_us)
    return standing_at(group, place, settled)


def standing_at(group: ConsumingGroup, place: QueuePlace, settled: Mapping[int, tuple[int, str]]) -> Standing:
    """How the record at a place stands; ``settled`` has times and outcome of takes by log offset."""
    take = group.receipts.get(place.log_offset)
    if take is not None:
        if take.state is State.BEHIND:
            return Standing(At.ACKNOWLEDGED, take.times)
        if take.is_in_flight:
            return Standing(At.IN_FLIGHT, take.times, take.visible_us)
        return Standing(At.TO_BE_REDELIVERED if take.times else At.NOT_TAKEN, take.times)
    times, outcome = settled.get(place.log_offset, (0, None))
    if outcome == Outcome.ACKED:
        return Standing(At.ACKNOWLEDGED, times)
    group_queue = group.queues.get(place.queue)
    if group_queue is None:
        return Standing(At.NOT_TAKEN, times)
    if place.queue_offset < group_queue.committed_offset:
        # Pulling consumers acknowledge by their committed offset; receivers go past what they do not want.
        is_acked = group_queue.reported is not None or outcome is not None
        return Standing(At.ACKNOWLEDGED if is_acked else At.PASSED, times)
    is_pulled = group_queue.reported is not None and place.queue_offset < group_queue.pulled_offset
    return Standing(At.IN_FLIGHT if is_pulled else At.NOT_TAKEN, times)
