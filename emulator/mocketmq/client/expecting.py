"""The operations of tests: what was sent, what became of it, and whether that is what was expected."""

import base64
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypedDict, Unpack
from urllib.parse import quote

from mocketmq.client.answer import JsonObject
from mocketmq.duration import parse_duration_us

__tracebackhide__ = True
"""pytest shows the line of the test that called, instead of what is here."""

_MOST = 1_000
"""Messages that an assertion returns."""


class Like(TypedDict, total=False):
    """Which messages; all that is given has to hold.

    ``body`` is a text, bytes, or any other JSON value, to which the parsed body is equal. Each path of
    ``json_path``, such as ``$.order.lines[0].sku``, leads to a value equal to its own. There may be others
    than these ``properties``. ``key`` is one of the message's keys.
    """

    tag: str
    key: str
    message_id: str
    properties: Mapping[str, str]
    body: str | bytes | Mapping[str, Any] | list[Any] | float | bool
    json_path: Mapping[str, Any]
    delayed: bool
    delay_level: int


class Expecting(ABC):
    """Asks, waits and asserts. Counts are of what was sent since the last reset.

    A wait is one request, which the broker answers as soon as it is so; ``wait`` is real time. The assertions
    raise AssertionError with what is missing, the nearest misses, and in what they differ. What one of them
    found is expected: ``assert_nothing_else`` is about the rest.
    """

    @abstractmethod
    async def _call(self, method: str, path: str, body: object = None) -> JsonObject: ...

    @abstractmethod
    async def _get(self, path: str, query: Mapping[str, object] | None = None) -> JsonObject: ...

    async def sent(self, topic: str, *, max_messages: int = 100, **like: Unpack[Like]) -> list[JsonObject]:
        """The newest messages that producers sent to the topic, delayed or not, oldest first."""
        answer = await self._call(
            "POST", api_path("topics", topic, "sent"), {"max": max_messages, **_like(like)}
        )
        messages: list[JsonObject] = answer["messages"]
        return messages

    async def wait_sent(
        self, topic: str, count: int = 1, *, wait: str = "5s", **like: Unpack[Like]
    ) -> JsonObject:
        """Wait until ``count`` such messages are sent; ``reached`` tells whether they are."""
        return await self._wait(topic, "sent", count, wait, like)

    async def wait_delivered(
        self, topic: str, count: int = 1, *, wait: str = "5s", **like: Unpack[Like]
    ) -> JsonObject:
        """Wait until ``count`` such messages are delivered to the topic, delayed ones when they are due."""
        return await self._wait(topic, "delivered", count, wait, like)

    async def wait_acknowledged(
        self, topic: str, count: int = 1, *, group: str, wait: str = "5s", **like: Unpack[Like]
    ) -> JsonObject:
        """Wait until the consumer group has acknowledged ``count`` such messages, after retries as well."""
        return await self._wait(topic, "acknowledged", count, wait, like, group=group)

    async def wait_dead(
        self,
        topic: str,
        count: int = 1,
        *,
        group: str | None = None,
        wait: str = "5s",
        **like: Unpack[Like],
    ) -> JsonObject:
        """Wait until ``count`` such messages are dead letters, of this group or any."""
        return await self._wait(topic, "dead", count, wait, like, group=group)

    async def assert_sent(
        self, topic: str, count: int | None = None, *, wait: str = "5s", **like: Unpack[Like]
    ) -> list[JsonObject]:
        """Assert that such a message is sent by then, or exactly ``count``; returns these messages.

        A ``count`` of 0 is looked at once.
        """
        return await self._assert(topic, "sent", count, wait, like)

    async def assert_delivered(
        self, topic: str, count: int | None = None, *, wait: str = "5s", **like: Unpack[Like]
    ) -> list[JsonObject]:
        """As ``assert_sent``, of messages that are delivered to the topic."""
        return await self._assert(topic, "delivered", count, wait, like)

    async def assert_acknowledged(
        self,
        topic: str,
        count: int | None = None,
        *,
        group: str,
        wait: str = "5s",
        **like: Unpack[Like],
    ) -> list[JsonObject]:
        """As ``assert_sent``, of messages that the consumer group has acknowledged."""
        return await self._assert(topic, "acknowledged", count, wait, like, group=group)

    async def assert_dead(
        self,
        topic: str,
        count: int | None = None,
        *,
        group: str | None = None,
        wait: str = "5s",
        **like: Unpack[Like],
    ) -> list[JsonObject]:
        """As ``assert_sent``, of messages that are dead letters, of this group or any."""
        return await self._assert(topic, "dead", count, wait, like, group=group)

    async def assert_nothing_else(self, topic: str | None = None) -> None:
        """Assert that nothing was sent, to the topic or to any, that no assertion before has found."""
        answer = await self._get(api_path("unexpected"), {"topic": topic})
        if answer["count"]:
            raise AssertionError(answer["explanation"])

    async def leaks(
        self, group: str | None = None, *, wait: str = "0", max_leaks: int = 100
    ) -> list[JsonObject]:
        """What this consumer group, or any, was given or is to be given and has not acknowledged.

        Waits up to ``wait`` of real time until there is nothing: some consumers commit seconds later.
        """
        query = {"group": group, "max": max_leaks, "timeout_ms": whole_ms(wait, "wait")}
        found: list[JsonObject] = (await self._get(api_path("leaks"), query))["leaks"]
        return found

    async def events(self, *, max_events: int = 200) -> list[JsonObject]:
        """The newest of what happened since the last reset, oldest first; ``text`` says it in words."""
        found: list[JsonObject] = (await self._get(api_path("events"), {"max": max_events}))["events"]
        return found

    async def _assert(
        self,
        topic: str,
        stage: str,
        count: int | None,
        wait: str,
        like: Like,
        group: str | None = None,
    ) -> list[JsonObject]:
        least = 1 if count is None else count
        answer = await self._wait(
            topic, stage, least, wait, like, group=group, exactly=count is not None, expected=True, max=_MOST
        )
        if not answer["reached"]:
            raise AssertionError(answer["explanation"])
        messages: list[JsonObject] = answer["messages"]
        return messages

    async def _wait(
        self,
        topic: str,
        stage: str,
        count: int,
        wait: str,
        like: Like,
        *,
        group: str | None = None,
        **more: bool | int,
    ) -> JsonObject:
        of_group = {} if group is None else {"group": group}
        asked = {stage: count, "timeout_ms": whole_ms(wait, "wait"), **of_group, **more, **_like(like)}
        return await self._call("POST", api_path("topics", topic, "wait"), asked)


def _like(like: Like) -> dict[str, Any]:
    body = like.get("body")
    if isinstance(body, bytes):
        others = {name: value for name, value in like.items() if name != "body"}
        return {**others, "body_base64": base64.b64encode(body).decode()}
    return dict(like)


def whole_ms(duration: str, field: str) -> int:
    """A duration in milliseconds, rounded up. Raises InvalidArgumentError for ``field``."""
    return -(-parse_duration_us(duration, field) // 1_000)


def api_path(*segments: str) -> str:
    """A path of the API."""
    return "/v1/" + "/".join(quote(segment, safe="") for segment in segments)
