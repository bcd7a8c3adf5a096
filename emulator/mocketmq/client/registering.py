"""Operations on topics, consumer groups and connected clients."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from mocketmq.client.answer import JsonObject
from mocketmq.client.api_calls import ApiCalls, api_path, entries_of, given

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""


class Registering(ApiCalls):
    """Operations on topics, consumer groups and connected clients."""

    async def topics(self) -> list[JsonObject]:
        """Return all topics with their queues."""
        return entries_of(await self._get(api_path("topics")), "topics")

    async def topic(self, name: str) -> JsonObject:
        """Return a topic with its queues."""
        return await self._get(api_path("topics", name))

    async def put_topic(
        self,
        name: str,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: str | None = None,
        type: str | None = None,  # noqa: A002 - as the API calls it
        lite_expiration: int | None = None,
        brokers: Collection[str] | Mapping[str, int | None] | None = None,
    ) -> JsonObject:
        """Create the topic, or change it. None leaves a setting as it is.

        A new topic has four queues for reading and four for writing, and the permission ``rw``.

        ``type`` is the message type for gRPC clients: ``normal``, ``fifo``, ``delay``, ``transaction``,
        ``priority``, ``lite``, ``mixed``. Consumers of a ``priority`` topic get the highest queue's messages
        first. A lite topic of a ``lite`` topic is deleted ``lite_expiration`` minutes after its last message.
        ``brokers`` names the brokers of a cluster that have the topic, or maps them to their numbers of
        queues. Without it, an existing topic stays on its brokers, and a new topic is created on all brokers.
        """
        wanted = given(
            read_queues=read_queues,
            write_queues=write_queues,
            perm=perm,
            type=type,
            lite_expiration=lite_expiration,
            brokers=None if brokers is None else _placed(brokers),
        )
        return await self._call("PUT", api_path("topics", name), wanted)

    async def lite_topics(self, topic: str) -> list[JsonObject]:
        """Return the lite topics of the topic, with their offsets and subscribers."""
        return entries_of(await self._get(api_path("topics", topic, "lite-topics")), "lite_topics")

    async def create_topic(
        self,
        name: str,
        *,
        queues: int | None = None,
        type: str | None = None,  # noqa: A002 - as the API calls it
        brokers: Collection[str] | Mapping[str, int | None] | None = None,
    ) -> JsonObject:
        """Create the topic, by default with four queues, or change it. None leaves a setting as it is.

        ``put_topic`` lists the types, and also sets permissions.
        """
        return await self.put_topic(name, read_queues=queues, write_queues=queues, type=type, brokers=brokers)

    async def delete_topic(self, name: str) -> JsonObject:
        """Delete the topic with its messages, including pending ones."""
        return await self._call("DELETE", api_path("topics", name))

    async def groups(self) -> list[JsonObject]:
        """Return all consumer groups with their lag."""
        return entries_of(await self._get(api_path("groups")), "groups")

    async def group(self, name: str) -> JsonObject:
        """Return a consumer group with its lag."""
        return await self._get(api_path("groups", name))

    async def put_group(
        self,
        name: str,
        *,
        max_retries: int | None = None,
        retry_queues: int | None = None,
        fifo: bool | None = None,
        priority_factor: int | None = None,
        lite_parent: str | None = None,
        lite_exclusive: bool | None = None,
        lite_wildcard: bool | None = None,
        lite_quota: int | None = None,
    ) -> JsonObject:
        """Create the consumer group, or change it. None leaves a setting as it is.

        A new group retries a message 16 times, and has one retry queue. With ``fifo``, the group's gRPC
        clients consume in order. ``priority_factor`` is the percentage of receives from a topic of type
        ``priority`` that get the highest priority first. The group consumes the lite topics of the topic
        ``lite_parent``.
        """
        wanted = given(
            max_retries=max_retries,
            retry_queues=retry_queues,
            fifo=fifo,
            priority_factor=priority_factor,
            lite_parent=lite_parent,
            lite_exclusive=lite_exclusive,
            lite_wildcard=lite_wildcard,
            lite_quota=lite_quota,
        )
        return await self._call("PUT", api_path("groups", name), wanted)

    async def reset_group(
        self,
        name: str,
        topic: str,
        *,
        queue_id: int | None = None,
        to: Literal["start", "end"] | None = None,
        instant_ms: int | None = None,
        offset: int | None = None,
    ) -> JsonObject:
        """Reset the consumer group's offsets to the topic's start, or to another position.

        ``instant_ms`` selects the first message stored at or after that instant; ``offset`` needs a
        ``queue_id``.
        """
        where = given(queue_id=queue_id, to=to, instant_ms=instant_ms, offset=offset)
        return await self._call("POST", api_path("groups", name, "reset"), {"topic": topic, **where})

    async def delete_group(self, name: str) -> JsonObject:
        """Delete the consumer group and its committed offsets."""
        return await self._call("DELETE", api_path("groups", name))

    async def clients(self) -> list[JsonObject]:
        """Return the connected RocketMQ clients, with their groups."""
        return entries_of(await self._get(api_path("clients")), "clients")

    async def running_info(self, client_id: str, *, group: str) -> JsonObject:
        """Return a consumer's report on itself, with the field names of its library."""
        answer = await self._get(api_path("clients", client_id, "running-info"), {"group": group})
        info: JsonObject = answer["running_info"]
        return info

    async def consume(self, client_id: str, message_id: str, *, group: str) -> JsonObject:
        """Make a consumer consume a message now; return the result."""
        return await self._call(
            "POST", api_path("clients", client_id, "consume"), {"group": group, "message_id": message_id}
        )

    async def reconnect(self, client_id: str) -> JsonObject:
        """Tell a gRPC client to reconnect.

        ``connections`` in the result is the number of its connections on which the broker sent the command.
        """
        return await self._call("POST", api_path("clients", client_id, "reconnect"))


def _placed(brokers: Collection[str] | Mapping[str, int | None]) -> list[JsonObject]:
    """Return the brokers of a topic in the form that the API expects."""
    if not isinstance(brokers, Mapping):
        return [{"name": name} for name in brokers]
    return [given(name=name, read_queues=count, write_queues=count) for name, count in brokers.items()]
