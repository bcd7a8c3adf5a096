"""Operations that find messages, wait for them, and make assertions: ``sent``, ``wait_…``, ``assert_…``."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from mocketmq.client.answer import JsonObject
from mocketmq.client.api_calls import ApiCalls, Duration, api_path, duration_text, entries_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""

_MOST = 1_000
"""Maximum number of messages that an assertion returns."""


class Like(TypedDict, total=False):
    """Criteria for messages; a message must meet all of them.

    ``body`` is text, bytes, or another JSON value that must equal the parsed body. ``json_path`` maps paths
    such as ``$.order.lines[0].sku`` to the expected values. A message may have other properties besides these
    ``properties``. ``key`` is one of the message's keys.
    """

    tag: str
    key: str
    message_id: str
    properties: Mapping[str, str]
    body: str | bytes | Mapping[str, Any] | list[Any] | float | bool
    json_path: Mapping[str, Any]
    delayed: bool
    delay_level: int


class LikeInTime(Like, total=False):
    """Criteria for messages, and how far the clock may move during the wait for them.

    With ``advance``, such as ``"1d"``, the wait moves the clock to each instant that the messages wait for,
    such as a due time or a retry, but by at most ``advance`` in total. While consumers hold messages or could
    receive them, the clock moves only after a ``pause`` of real time without any change, ``"1s"`` by default.
    """

    advance: Duration
    pause: Duration


class Expecting(ApiCalls):
    """Queries, waits and assertions. Counts include the messages sent since the last reset.

    A wait is one request, to which the broker responds as soon as the count is reached; ``wait`` is real
    time. A failed assertion raises AssertionError with the missing messages, the nearest misses, and their
    differences. With ``advance``, a wait moves the clock: ``assert_dead("orders", advance="1d")``. Messages
    that an assertion finds count as expected; ``assert_nothing_else`` checks that there are no others.
    """

    async def sent(self, topic: str, *, max_messages: int = 100, **like: Unpack[Like]) -> list[JsonObject]:
        """Return the newest messages that producers sent to the topic, oldest first."""
        answer = await self._call(
            "POST", api_path("topics", topic, "sent"), {"max": max_messages, **_like(like)}
        )
        return entries_of(answer, "messages")

    async def wait_sent(
        self, topic: str, count: int = 1, *, wait: Duration = "5s", **like: Unpack[Like]
    ) -> JsonObject:
        """Wait until ``count`` matching messages are sent; ``reached`` says whether they were."""
        return await self._wait(topic, "sent", count, wait, like)

    async def wait_delivered(
        self, topic: str, count: int = 1, *, wait: Duration = "5s", **like: Unpack[LikeInTime]
    ) -> JsonObject:
        """Wait until ``count`` matching messages are delivered to the topic, after any delay."""
        return await self._wait(topic, "delivered", count, wait, like)

    async def wait_acknowledged(
        self, topic: str, count: int = 1, *, group: str, wait: Duration = "5s", **like: Unpack[LikeInTime]
    ) -> JsonObject:
        """Wait until the consumer group has acknowledged ``count`` matching messages, including retries."""
        return await self._wait(topic, "acknowledged", count, wait, like, group=group)

    async def wait_dead(
        self,
        topic: str,
        count: int = 1,
        *,
        group: str | None = None,
        wait: Duration = "5s",
        **like: Unpack[LikeInTime],
    ) -> JsonObject:
        """Wait until ``count`` matching messages are dead letters of this group, or of any group."""
        return await self._wait(topic, "dead", count, wait, like, group=group)

    async def assert_sent(
        self, topic: str, count: int | None = None, *, wait: Duration = "5s", **like: Unpack[Like]
    ) -> list[JsonObject]:
        """Assert that ``count`` matching messages, by default at least one, are sent in time; return them.

        A ``count`` of 0 is checked at once, without waiting.
        """
        return await self._assert(topic, "sent", count, wait, like)

    async def assert_delivered(
        self, topic: str, count: int | None = None, *, wait: Duration = "5s", **like: Unpack[LikeInTime]
    ) -> list[JsonObject]:
        """Like ``assert_sent``, for messages delivered to the topic."""
        return await self._assert(topic, "delivered", count, wait, like)

    async def assert_acknowledged(
        self,
        topic: str,
        count: int | None = None,
        *,
        group: str,
        wait: Duration = "5s",
        **like: Unpack[LikeInTime],
    ) -> list[JsonObject]:
        """Like ``assert_sent``, for messages that the consumer group has acknowledged."""
        return await self._assert(topic, "acknowledged", count, wait, like, group=group)

    async def assert_dead(
        self,
        topic: str,
        count: int | None = None,
        *,
        group: str | None = None,
        wait: Duration = "5s",
        **like: Unpack[LikeInTime],
    ) -> list[JsonObject]:
        """Like ``assert_sent``, for dead letters of this group, or of any group."""
        return await self._assert(topic, "dead", count, wait, like, group=group)

    async def assert_nothing_else(self, topic: str | None = None) -> None:
        """Assert that earlier assertions have found all messages sent to the topic, or to any topic."""
        answer = await self._get(api_path("unexpected"), {"topic": topic})
        if answer["count"]:
            raise AssertionError(answer["explanation"])

    async def leaks(
        self, group: str | None = None, *, wait: Duration = "0", max_leaks: int = 100
    ) -> list[JsonObject]:
        """Return the delivered messages that this consumer group, or any group, has not acknowledged.

        Waits up to ``wait`` of real time until there are none, because some consumers commit seconds later.
        """
        query = {"group": group, "max": max_leaks, "wait": duration_text(wait, "wait")}
        return entries_of(await self._get(api_path("leaks"), query), "leaks")

    async def events(self, *, max_events: int = 200) -> list[JsonObject]:
        """Return the newest events since the last reset, oldest first; ``text`` describes each in words."""
        return entries_of(await self._get(api_path("events"), {"max": max_events}), "events")

    async def _assert(
        self,
        topic: str,
        stage: str,
        count: int | None,
        wait: Duration,
        like: Like,
        group: str | None = None,
    ) -> list[JsonObject]:
        least = 1 if count is None else count
        answer = await self._wait(
            topic, stage, least, wait, like, group=group, exactly=count is not None, expected=True, max=_MOST
        )
        if not answer["reached"]:
            raise AssertionError(answer["explanation"])
        return entries_of(answer, "messages")

    async def _wait(
        self,
        topic: str,
        stage: str,
        count: int,
        wait: Duration,
        like: Like,
        *,
        group: str | None = None,
        **more: bool | int,
    ) -> JsonObject:
        of_group = {} if group is None else {"group": group}
        asked = {stage: count, "wait": wait, **of_group, **more, **_like(like)}
        for name in {"wait", "advance", "pause"} & asked.keys():
            asked[name] = duration_text(asked[name], name)
        return await self._call("POST", api_path("topics", topic, "wait"), asked)


def _like(like: Like) -> dict[str, Any]:
    body = like.get("body")
    if isinstance(body, bytes):
        others = {name: value for name, value in like.items() if name != "body"}
        return {**others, "body_base64": base64.b64encode(body).decode()}
    return dict(like)
