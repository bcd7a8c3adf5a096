"""Operations on messages: send, receive and settle; look them up; delays and transactions."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from mocketmq import invisible_time
from mocketmq.client.answer import JsonObject
from mocketmq.client.api_calls import ApiCalls, Duration, api_path, duration_text, entries_of
from mocketmq.client.seeds import SeedSource, seed_text

if TYPE_CHECKING:
    from typing_extensions import Unpack

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""


class MessageOptions(TypedDict, total=False):
    """The fields of a message besides its body, as in the API's MessageIn."""

    tag: str
    keys: Sequence[str]
    properties: Mapping[str, str]
    delay_level: int
    delay: Duration
    delay_ms: int
    start_deliver_ms: int
    queue_id: int
    priority: int
    lite_topic: str
    message_id: str
    born_ms: int
    flag: int


class Messaging(ApiCalls):
    """Operations on messages."""

    # Messages

    async def send(self, topic: str, body: str | bytes, **options: Unpack[MessageOptions]) -> JsonObject:
        """Send a message. It is durable on return."""
        return await self._call("POST", api_path("topics", topic, "messages"), outgoing(body, **options))

    async def send_batch(
        self, topic: str, messages: Sequence[JsonObject], *, advance: Duration | None = None
    ) -> list[JsonObject]:
        """After moving the clock by ``advance``, send up to 1,000 :func:`outgoing` messages, all or none."""
        body: JsonObject = {"messages": messages}
        if advance is not None:
            body["advance"] = duration_text(advance, "advance")
        answer = await self._call("POST", api_path("topics", topic, "messages", "batch"), body)
        return entries_of(answer, "sent")

    async def seed(self, source: SeedSource) -> JsonObject:
        """Store messages with a past, all or none, from a TOML, JSON lines or CSV file, or from a list.

        docs/seeds.md describes their fields. Returns their ``message_ids``, in order.
        """
        text, file_format, name = seed_text(source)
        return await self.seed_text(text, file_format, name=name)

    async def seed_text(self, text: str, format: str, *, name: str = "seed") -> JsonObject:  # noqa: A002
        """Like ``seed``, with the text of a ``toml``, ``jsonl`` or ``csv`` file. Errors call it ``name``."""
        file = {"text": text, "format": format, "name": name[-255:]}
        return await self._call("POST", api_path("seeds"), {"file": file})

    async def receive(
        self,
        topic: str,
        *,
        group: str,
        max_messages: int = 1,
        wait: Duration = "0",
        invisible: Duration = invisible_time.JSON_DEFAULT,
        tags: str = "*",
        sql: str | None = None,
    ) -> list[JsonObject]:
        """Receive messages, waiting up to ``wait`` for the first; return an empty list if none arrives.

        The messages are invisible to the group's other consumers for the duration ``invisible``. ``tags`` is
        a filter such as ``A || B``; ``sql`` is an SQL92 filter instead, such as ``price > 10``.
        """
        answer = await self._call(
            "POST",
            api_path("groups", group, "receive"),
            {
                "topic": topic,
                "max": max_messages,
                "wait": duration_text(wait, "wait"),
                "invisible": duration_text(invisible, "invisible"),
                **_filter(tags, sql),
            },
        )
        return entries_of(answer, "messages")

    async def acknowledge(self, group: str, messages: JsonObject | Iterable[JsonObject]) -> JsonObject:
        """Acknowledge received messages, or a single one."""
        return await self._settle(group, "ack", messages)

    async def give_back(
        self, group: str, messages: JsonObject | Iterable[JsonObject], delay_level: int = 0
    ) -> JsonObject:
        """Give received messages back for a retry; a level below 0 makes them dead letters at once."""
        return await self._settle(group, "give-back", messages, delay_level=delay_level)

    async def extend(
        self, group: str, messages: JsonObject | Iterable[JsonObject], invisible: Duration
    ) -> JsonObject:
        """Keep received messages invisible for ``invisible`` from now."""
        return await self._settle(group, "extend", messages, invisible=duration_text(invisible, "invisible"))

    async def browse(
        self,
        topic: str,
        queue_id: int = 0,
        *,
        lite_topic: str | None = None,
        offset: int = 0,
        max_messages: int = 32,
        tags: str = "*",
        sql: str | None = None,
    ) -> JsonObject:
        """Read a queue, or a lite topic, from an offset, without consuming it.

        ``tags`` and ``sql`` work as in ``receive``.
        """
        of = ("queues", str(queue_id)) if lite_topic is None else ("lite-topics", lite_topic)
        return await self._get(
            api_path("topics", topic, *of, "messages"),
            {"offset": offset, "max": max_messages, **_filter(tags, sql)},
        )

    async def message(self, message_id: str) -> JsonObject:
        """Return the history of a message: its records, deliveries and receipts."""
        return await self._get(api_path("messages", message_id))

    async def messages_by_key(
        self, key: str, *, topic: str | None = None, max_messages: int = 64
    ) -> list[JsonObject]:
        """Return the messages with this key, oldest first."""
        query = {"key": key, "topic": topic, "max": max_messages}
        return entries_of(await self._get(api_path("messages"), query), "messages")

    # Delayed messages

    async def levels(self) -> JsonObject:
        """Return the figures of the delay ``levels``, and of absolute due times as ``timed``."""
        return await self._get(api_path("levels"))

    async def delayed(
        self,
        *,
        topic: str | None = None,
        level: int | None = None,
        after: int | None = None,
        max_messages: int = 100,
    ) -> JsonObject:
        """Return a page of pending messages, oldest first; ``next_after`` is the next page's ``after``."""
        return await self._get(
            api_path("delayed"), {"topic": topic, "level": level, "after": after, "max": max_messages}
        )

    async def cancel(self, message_id: str) -> JsonObject:
        """Cancel a pending message."""
        return await self._call("DELETE", api_path("delayed", message_id))

    async def deliver(self, message_id: str) -> JsonObject:
        """Deliver a pending message now, before it is due."""
        return await self._call("POST", api_path("delayed", message_id, "deliver"))

    # Transactions

    async def prepare(
        self, topic: str, body: str | bytes, *, group: str, **options: Unpack[MessageOptions]
    ) -> JsonObject:
        """Store a half message; the broker checks back with the group's producers."""
        half = {**outgoing(body, **options), "group": group}
        return await self._call("POST", api_path("topics", topic, "transactions"), half)

    async def transactions(
        self, *, topic: str | None = None, after: int | None = None, max_messages: int = 100
    ) -> JsonObject:
        """Return a page of half messages, oldest first; ``next_after`` is the next page's ``after``."""
        return await self._get(
            api_path("transactions"), {"topic": topic, "after": after, "max": max_messages}
        )

    async def commit(self, message_id: str) -> JsonObject:
        """Commit a half message, which then becomes visible, or waits for its due time."""
        return await self._call("POST", api_path("transactions", message_id, "commit"))

    async def rollback(self, message_id: str) -> JsonObject:
        """Roll a half message back, so that no consumer gets it."""
        return await self._call("POST", api_path("transactions", message_id, "rollback"))

    async def _settle(
        self, group: str, verb: str, messages: JsonObject | Iterable[JsonObject], **more: int | str
    ) -> JsonObject:
        some = [messages] if isinstance(messages, Mapping) else messages
        receipts = [message["receipt"] for message in some]
        return await self._call("POST", api_path("groups", group, verb), {"receipts": receipts, **more})


def outgoing(body: str | bytes, **options: Unpack[MessageOptions]) -> JsonObject:
    """Make a message for ``send_batch``."""
    if "delay" in options:
        options["delay"] = duration_text(options["delay"], "delay")
    if isinstance(body, bytes):
        return {"body_base64": base64.b64encode(body).decode(), **options}
    return {"body": body, **options}


def _filter(tags: str, sql: str | None) -> dict[str, str]:
    return {"filter": tags} if sql is None else {"filter": sql, "filter_type": "SQL92"}
