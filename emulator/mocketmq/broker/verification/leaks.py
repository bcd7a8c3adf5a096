"""Leaks: messages that consumers should have acknowledged but have not. A clean test leaves none."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup, ConsumingGroups
from mocketmq.broker.consuming.polls import ANYTHING, Polls
from mocketmq.broker.lite.subscriptions import LiteSubscriptions
from mocketmq.broker.registry.clients import BROADCASTING, Clients, LiveGroup
from mocketmq.broker.verification.expectations import Expectations, SeenMessage
from mocketmq.broker.verification.group_status import GroupState, GroupStatus, group_statuses
from mocketmq.broker.verification.message_matcher import MessageMatcher
from mocketmq.message.names import CHECKED_HALF_GROUP, HALF_GROUP, RETRY_PREFIX
from mocketmq.store.database import Database
from mocketmq.store.queue import Queue

_LEAKING = (
    GroupState.NOT_TAKEN,
    GroupState.IN_FLIGHT,
    GroupState.POSTPONED,
    GroupState.TO_BE_REDELIVERED,
    GroupState.TO_BE_RETRIED,
)


class Leak(msgspec.Struct, frozen=True):
    """A message that a group has not acknowledged, and its state in that group."""

    group: str
    seen: SeenMessage
    status: GroupStatus


@dataclass(eq=False, repr=False)
class Leaks:
    """Finds leaks in each group's topics, except in broadcasts, whose consumers keep offsets themselves.

    For a group of lite topics, only those count that it has consumed or subscribes to, unless it subscribes
    to all of them by a wildcard.
    """

    _database: Database
    _clients: Clients
    _groups: ConsumingGroups
    _polls: Polls
    _lite_subscriptions: LiteSubscriptions
    _expectations: Expectations

    async def find_leaks(self, group_name: str | None, limit: int, wait_s: float) -> tuple[int, list[Leak]]:
        """Count the leaks of a group, or of all groups, and return the newest of them.

        Waits up to ``wait_s`` real seconds until there is no leak, because some consumers commit late. Raises
        GroupNotFoundError.
        """
        if group_name is not None:
            self._groups.get(group_name)

        async def look() -> tuple[int, list[Leak]]:
            return await self._look(group_name, limit)

        return await self._polls.wait_for(look, (ANYTHING,), wait_s, is_enough=lambda found: not found[0])

    async def _look(self, group_name: str | None, limit: int) -> tuple[int, list[Leak]]:
        messages = self._expectations.messages(None, MessageMatcher())
        await messages.follow()
        count, found = 0, []
        for group in self._groups:
            live = self._clients.find_connected_group(group.name)
            is_broadcast = live is not None and live.model == BROADCASTING
            if group_name not in (None, group.name) or is_broadcast:
                continue
            if group.name in (HALF_GROUP, CHECKED_HALF_GROUP):
                continue
            is_wanted = self._consumes(group, live)
            consumed = [
                sent
                for sent in messages.in_order()
                if (sent.positions and is_wanted(sent.queue)) or group.name in sent.again
            ]
            leaking = [
                (sent, status)
                for sent, status in zip(
                    consumed, await group_statuses(self._database, group, consumed), strict=True
                )
                if status.state in _LEAKING
            ]
            count += len(leaking)
            status_of = dict(leaking[-limit:]) if limit else {}
            seen = await self._expectations.seen(messages, list(status_of), limit)
            found += [Leak(group.name, one, status_of[one.sent]) for one in seen]
        return count, found[-limit:] if limit else []

    def _consumes(self, group: ConsumingGroup, live: LiveGroup | None) -> Callable[[Queue], bool]:
        """Make a function that tells whether a group, with its connected clients, consumes a queue."""
        config = group.registered.config
        if config.lite_parent is not None and not config.is_lite_wildcard:
            return self._lite_subscriptions.consumed_by(group).__contains__
        queues = (*group.queues, *group.uncommitted)
        topics = {queue.topic for queue in queues if not queue.topic.startswith(RETRY_PREFIX)}
        topics.update(live.subscriptions if live is not None else ())
        return lambda queue: queue.topic in topics
