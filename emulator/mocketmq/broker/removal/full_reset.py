"""The full reset between tests: removes fault rules, messages, and undeclared topics and groups."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from mocketmq.broker.consuming.consuming_groups import ConsumingGroups
from mocketmq.broker.registry.registry import Registry, declare
from mocketmq.broker.removal.reset import Reset
from mocketmq.errors import GroupNotFoundError, TopicNotFoundError
from mocketmq.faults.rule_set import FaultRules
from mocketmq.message.names import dead_letter_topic, is_system_group, retry_topic
from mocketmq.settings import Settings


class FullReset:
    """Resets the whole broker."""

    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        groups: ConsumingGroups,
        faults: FaultRules,
        reset: Reset,
        heal_cluster: Sequence[Callable[[], Awaitable[None]]],
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._groups = groups
        self._faults = faults
        self._reset = reset
        self._heal_cluster = heal_cluster

    async def run(self, begin_us: int | None, *, forget: bool) -> None:
        """Remove all fault rules and messages, and heal the cluster. Raises ClockError.

        ``forget`` also removes topics and groups. Rules are removed first, so that no rule delays or refuses
        the rest. ``begin_us``, if given, sets the clock.
        """
        self._reset.check_beginning(begin_us)
        await self._faults.clear()
        for heal in self._heal_cluster:
            await heal()
        await self._reset.all(begin_us)
        if forget:
            await self.forget_undeclared()

    async def forget_undeclared(self) -> None:
        """Delete topics and groups neither declared in the settings nor in use by a connected client.

        Declared topics and groups get their declared properties again.
        """
        registry, settings = self._registry, self._settings
        names = {group.name for group in settings.groups}
        for client in registry.clients:
            names.update(client.producers, client.consumers)
        for group in registry.groups:
            if group.name not in names and not is_system_group(group.name):
                with suppress(GroupNotFoundError):  # a client has just deleted it
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
