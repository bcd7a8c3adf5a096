"""What consumers are to acknowledge and have not: a clean test leaves none of it."""

from typing import NamedTuple

from mocketmq.broker.consuming.consuming_groups import ConsumingGroups
from mocketmq.broker.consuming.polls import ANYTHING, Polls
from mocketmq.broker.registry.clients import BROADCASTING, Clients
from mocketmq.broker.verification.expectations import Expectations, SeenMessage
from mocketmq.broker.verification.like import MessageMatcher
from mocketmq.broker.verification.standing import At, Standing, standings
from mocketmq.message.names import CHECKED_HALF_GROUP, HALF_GROUP, RETRY_PREFIX
from mocketmq.store.database import Database

_LEAKING = (At.NOT_TAKEN, At.IN_FLIGHT, At.TO_BE_REDELIVERED, At.TO_BE_RETRIED)


class Leak(NamedTuple):
    """A message that a group has not acknowledged, and how it stands there."""

    group: str
    seen: SeenMessage
    standing: Standing


class Leaks:
    """Finds them in the topics that each group consumes, but for broadcasts: their consumers keep offsets."""

    def __init__(
        self,
        database: Database,
        clients: Clients,
        groups: ConsumingGroups,
        polls: Polls,
        expectations: Expectations,
    ) -> None:
        self._database = database
        self._clients = clients
        self._groups = groups
        self._polls = polls
        self._expectations = expectations

    async def find(self, group_name: str | None, limit: int, wait_s: float) -> tuple[int, list[Leak]]:
        """How many leaks there are at a group, or at all, and the newest of them.

        Waits up to ``wait_s`` real seconds until there is none: some consumers commit late.
        """

        async def look() -> tuple[int, list[Leak]]:
            return await self._look(group_name, limit)

        return await self._polls.wait_for(look, (ANYTHING,), wait_s, is_enough=lambda found: not found[0])

    async def _look(self, group_name: str | None, limit: int) -> tuple[int, list[Leak]]:
        messages = self._expectations.messages(None, MessageMatcher())
        await messages.follow()
        count, found = 0, []
        for group in self._groups:
            live = self._clients.find(group.name)
            is_broadcast = live is not None and live.model == BROADCASTING
            if group_name not in (None, group.name) or is_broadcast:
                continue
            if group.name in (HALF_GROUP, CHECKED_HALF_GROUP):
                continue
            topics = {queue.topic for queue in group.queues if not queue.topic.startswith(RETRY_PREFIX)}
            if live is not None:
                topics.update(live.subscriptions)
            consumed = [
                sent
                for sent in messages.in_order()
                if (sent.queue.topic in topics and sent.places) or group.name in sent.again
            ]
            leaking = [
                (sent, standing)
                for sent, standing in zip(
                    consumed, await standings(self._database, group, consumed), strict=True
                )
                if standing.at in _LEAKING
            ]
            count += len(leaking)
            standing_of = dict(leaking[-limit:]) if limit else {}
            seen = await self._expectations.seen(messages, list(standing_of), limit)
            found += [Leak(group.name, one, standing_of[one.sent]) for one in seen]
        return count, found[-limit:] if limit else []
