"""Empty the broker for the next test: fault rules, messages, and what nobody declared."""

from contextlib import suppress

from mocketmq.broker.consuming.consuming_groups import ConsumingGroups
from mocketmq.broker.registry.registry import Registry, declare
from mocketmq.broker.removal.reset import Reset
from mocketmq.errors import GroupNotFoundError, TopicNotFoundError
from mocketmq.faults.faults import Faults
from mocketmq.message.names import dead_letter_topic, is_system_group, retry_topic
from mocketmq.settings import Settings


class FullReset:
    """Resets everything in one request."""

    def __init__(
        self, settings: Settings, registry: Registry, groups: ConsumingGroups, faults: Faults, reset: Reset
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._groups = groups
        self._faults = faults
        self._reset = reset

    async def run(self, begin_us: int | None, *, forget: bool) -> None:
        """Remove all fault rules and messages; ``forget`` also topics and groups. Raises ClockError.

        Rules go first, so that none delays or refuses what follows. ``begin_us`` is the instant at which the
        clock begins anew.
        """
        self._reset.check_beginning(begin_us)
        await self._faults.clear()
        await self._reset.all(begin_us)
        if forget:
            await self.forget_undeclared()

    async def forget_undeclared(self) -> None:
        """Delete the topics and groups that the settings do not declare, and no connected client consumes.

        Those that are declared get back what the settings say of them.
        """
        registry, settings = self._registry, self._settings
        names = {group.name for group in settings.groups}
        for client in registry.clients:
            names.update(client.producers, client.consumers)
        for group in registry.groups:
            if group.name not in names and not is_system_group(group.name):
                with suppress(GroupNotFoundError):  # a client was faster
                    await self._groups.delete(group.name, clean_offsets=True)
        topics = {topic.name for topic in settings.topics}
        topics.update(name for group in names for name in (retry_topic(group), dead_letter_topic(group)))
        for topic in registry.topics:
            is_used = topic.name in topics or registry.clients.subscribers(topic.name)
            if not is_used and not topic.is_system:
                with suppress(TopicNotFoundError):
                    await self._reset.delete_topic(topic.name)
        await registry.request_modes.forget()
        await declare(settings, registry.topics, registry.groups, anew=True)
