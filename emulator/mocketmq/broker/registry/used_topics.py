"""Finds the topic for a client's request: checks the permission, and creates the topic on first use."""

import asyncio
from typing import Final

from mocketmq.broker.registry.topic import PERM_INHERIT, PERM_READ, PERM_WRITE, Topic
from mocketmq.broker.registry.topic_config import QueuesAtBroker
from mocketmq.broker.registry.topics import Topics, is_at_all_brokers
from mocketmq.errors import InvalidArgumentError, NoPermissionError, TopicNotFoundError, shorten
from mocketmq.message.message import Template
from mocketmq.message.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    TEMPLATE_TOPIC,
    check_topic_name,
    expected_queues,
    is_forbidden_topic,
    is_hidden_topic,
    is_system_topic,
)

TEMPLATE_QUEUES: Final = 8
"""Maximum number of queues of a topic created by a remoting client's send (remoting.md §7.3)."""


class UsedTopics:
    """Finds the topic that a client wants to use.

    With ``auto_create`` topics are created on first use. With ``by_route``, a request for a topic's route
    counts as a use.
    """

    def __init__(self, topics: Topics, *, auto_create: bool, by_route: bool, default_queues: int) -> None:
        self.default_queues = default_queues
        self._topics = topics
        self.auto_create = auto_create
        self._by_route = by_route
        # Senders that wait until their topic is created, by topic name.
        self._turns: dict[str, list[asyncio.Future[None]]] = {}

    @property
    def auto_create_by_route(self) -> bool:
        """Whether a request for a topic's route creates the topic."""
        return self.auto_create and self._by_route

    async def set_auto_create(self, *, is_on: bool) -> None:
        """Switch creation on first use on or off. Clients recognize the setting by the template topic."""
        if is_on or self._topics.find_topic(TEMPLATE_TOPIC) is not None:
            perm = PERM_READ | PERM_WRITE | PERM_INHERIT if is_on else 0
            await self._topics.put(TEMPLATE_TOPIC, TEMPLATE_QUEUES, TEMPLATE_QUEUES, perm)
        self.auto_create = is_on

    async def for_send(
        self, name: str, template: Template | None = None, queue_id: int | None = None
    ) -> Topic:
        """The topic for a client's send, created on first use if allowed, from the template if given.

        As in RocketMQ, a template creates the topic only on the broker that has the queue ``queue_id``, even
        if other brokers already have the topic. Raises InvalidArgumentError for an invalid name,
        NoPermissionError if clients may not send to the topic, TopicNotFoundError if the topic does not exist
        and is not created.
        """
        topic, position = self.ready_for_send(name), None
        if template is not None and queue_id is not None and queue_id >= 0 and not is_at_all_brokers(name):
            position = queue_id % len(self._topics.brokers)
        if topic is not None and (position is None or topic.is_at(position)):
            return topic
        return _writable(await self._in_turn(name, template, position))

    def ready_for_send(self, name: str) -> Topic | None:
        """Like ``for_send``, but returns None for a topic that must be created or is being created."""
        topic = self._topics.find_topic(name)
        if topic is None:
            check_topic_name(name)
        if is_forbidden_topic(name):
            raise NoPermissionError(f"Sending message to topic[{name}] is forbidden.")
        return None if topic is None or name in self._turns else _writable(topic)

    async def _in_turn(self, name: str, template: Template | None, position: int | None) -> Topic:
        """Like ``_first_use``, but senders continue in their order of arrival."""
        loop, turns = asyncio.get_running_loop(), self._turns.get(name)
        if turns is not None:
            turns.append(turn := loop.create_future())
            await turn
            topic = self._topics.find_topic(name)
            if topic is not None and (position is None or topic.is_at(position)):
                return topic
            return await self._first_use(name, template, position)
        self._turns[name] = []
        try:
            return await self._first_use(name, template, position)
        finally:
            loop.call_soon(self._next_turn, name)

    def _next_turn(self, name: str) -> None:
        """Wake all senders that wait now. Later senders wait for the next round."""
        turns, self._turns[name] = self._turns[name], []
        for turn in turns:
            if not turn.done():
                turn.set_result(None)
        if turns:
            asyncio.get_running_loop().call_soon(self._next_turn, name)
        else:
            del self._turns[name]

    async def for_receive(self, name: str) -> Topic:
        """The topic for a consumer, created on first use if allowed. Raises the errors of ``for_send``."""
        topic = self._topics.find_topic(name)
        if topic is None:
            check_topic_name(name)
        is_hidden = is_hidden_topic(name)
        if topic is None and not is_hidden:
            topic = await self._first_use(name)
        if topic is None or is_hidden or not topic.perm & PERM_READ:
            raise NoPermissionError(f"the topic[{name}] pulling message is forbidden")
        return topic

    async def for_reading(self, name: str) -> Topic:
        """Like ``for_receive``, for clients that know the topic's queues. Creates only system topics.

        Also raises TopicNotFoundError.
        """
        if not is_system_topic(name):
            self._topics.get(name)
        return await self.for_receive(name)

    async def for_route(self, name: str, *, is_needed: bool = False) -> Topic:
        """The topic for a request for its route, created if the settings allow it.

        ``is_needed`` means that the client cannot send without a route, so the topic is created as by a send.
        Raises TopicNotFoundError with advice.
        """
        topic = self._topics.find_topic(name)
        if topic is not None:
            return topic
        if not expected_queues(name):
            self._check_is_made_by_route(name, is_needed)
        return await self._first_use(name)

    def _check_is_made_by_route(self, name: str, is_needed: bool) -> None:
        shown, is_of_group = shorten(name), name.startswith((RETRY_PREFIX, DLQ_PREFIX))
        try:
            check_topic_name(name)
        except InvalidArgumentError as error:
            raise TopicNotFoundError(f"invalid topic name {shown}: {error}") from None
        if is_system_topic(name):
            raise TopicNotFoundError(
                f"topic {shown} is a system topic and does not exist yet; only the broker creates it"
            )
        if not self.auto_create:
            raise TopicNotFoundError(
                f"topic {shown} does not exist, and auto_create_topics is false; create it by mocketmq topics"
                " create, or declare it in the configuration as [[topics]]"
            )
        if is_needed and not is_of_group:
            return
        if self._topics.was_deleted(name):  # running clients still request the route every 30 s
            raise TopicNotFoundError(
                f"topic {shown} was deleted; a message to it, or mocketmq topics create, creates it again"
            )
        if not self._by_route:
            raise TopicNotFoundError(
                f"topic {shown} does not exist; a first message to it, or mocketmq topics create, creates it"
            )
        if is_of_group:
            raise TopicNotFoundError(f"topic {shown} belongs to no known group")

    async def _first_use(
        self, name: str, template: Template | None = None, position: int | None = None
    ) -> Topic:
        """Create a topic from the template, or a system topic with RocketMQ's number of queues.

        Retry and dead-letter topics have one queue. If ``position`` is given, a topic from the template is
        created only on the broker with this position.
        """
        is_of_group = name.startswith((RETRY_PREFIX, DLQ_PREFIX))
        like = None if is_of_group and template is None else self._like(template)
        queues = 1 if is_of_group and like is None else expected_queues(name)
        if queues:
            return await self._topics.ensure(name, queues)
        if like is None or is_system_topic(name):
            return self._topics.get(name)
        queues, perm = like
        if position is None:
            return await self._topics.put(name, queues, queues, perm, replace=False)
        at = {position: QueuesAtBroker(queues, queues, perm)}
        return await self._topics.put_at(name, at, replace=False)

    def _like(self, template: Template | None) -> tuple[int, int] | None:
        """The number of queues and the permission for a new topic; None if it must not be created."""
        if template is None:
            return (self.default_queues, PERM_READ | PERM_WRITE) if self.auto_create else None
        topic = self._topics.find_topic(template.topic)
        if topic is None or not topic.perm & PERM_INHERIT:
            return None
        return min(template.queues, topic.write_queues), topic.perm & ~PERM_INHERIT


def _writable(topic: Topic) -> Topic:
    """The topic. Raises NoPermissionError if no client may send to it."""
    if not topic.perm & PERM_WRITE:
        raise NoPermissionError(f"the topic[{topic.name}] sending message is forbidden")
    return topic
