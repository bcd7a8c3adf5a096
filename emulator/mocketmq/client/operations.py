"""The operations of the JSON API: each is a method, over whatever way its requests travel."""

import base64
import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypedDict, Unpack, cast
from urllib.parse import urlencode, urlsplit

from mocketmq import DEFAULT_URL
from mocketmq.client.answer import JsonObject, RawAnswer, UnreachableError
from mocketmq.client.expecting import Expecting, api_path, whole_ms
from mocketmq.client.info import Info
from mocketmq.duration import parse_duration_us
from mocketmq.errors import InvalidArgumentError

__tracebackhide__ = True
"""pytest shows the line of the test that called, instead of what is here."""

CONNECT_S = 10.0
"""Real seconds to connect. Answers have no time limit: a move of the clock may take long."""


_TOKENS = "printable ASCII characters"


class MessageOptions(TypedDict, total=False):
    """The fields of a message besides its body, as MessageIn of the API has them."""

    tag: str
    keys: Sequence[str]
    properties: Mapping[str, str]
    delay_level: int
    delay_ms: int
    start_deliver_ms: int
    queue_id: int
    message_id: str
    born_ms: int
    flag: int


class Operations(Expecting):
    """What can be asked of the broker at ``url``. Each operation raises BrokerError, UnreachableError.

    A client is a subclass whose :meth:`_exchange` carries the requests.
    """

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url.rstrip("/")
        if not _is_address(self.url):
            raise InvalidArgumentError("url", url, f"an address such as {DEFAULT_URL}")
        if token and not (token.isascii() and token.isprintable()):
            raise InvalidArgumentError("token", "hidden", _TOKENS, f"token is hidden; allowed: {_TOKENS}")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    @abstractmethod
    async def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> RawAnswer:
        """Send a request and read its response. Raises UnreachableError."""

    # Messages

    async def send(self, topic: str, body: str | bytes, **options: Unpack[MessageOptions]) -> JsonObject:
        """Send a message. It is stored when this returns."""
        return await self._call("POST", api_path("topics", topic, "messages"), outgoing(body, **options))

    async def send_batch(self, topic: str, messages: Sequence[JsonObject]) -> list[JsonObject]:
        """Send up to 1,000 messages made by :func:`outgoing`: all or none."""
        answer = await self._call(
            "POST", api_path("topics", topic, "messages", "batch"), {"messages": messages}
        )
        return _list(answer, "sent")

    async def receive(
        self,
        topic: str,
        *,
        group: str,
        max_messages: int = 1,
        wait: str = "0",
        invisible: str = "30s",
        tags: str = "*",
        sql: str | None = None,
    ) -> list[JsonObject]:
        """Receive messages, waiting up to ``wait`` for a first one; an empty list if none came.

        For ``invisible`` the group's other consumers do not get them. ``tags`` is a filter such as
        ``A || B``; ``sql`` is an SQL92 filter in its place, such as ``price > 10``.
        """
        answer = await self._call(
            "POST",
            api_path("groups", group, "receive"),
            {
                "topic": topic,
                "max": max_messages,
                "wait_ms": whole_ms(wait, "wait"),
                "invisible_ms": whole_ms(invisible, "invisible"),
                **_filter(tags, sql),
            },
        )
        return _list(answer, "messages")

    async def acknowledge(self, group: str, messages: Iterable[JsonObject]) -> JsonObject:
        """Acknowledge received messages."""
        return await self._settle(group, "ack", messages)

    async def give_back(self, group: str, messages: Iterable[JsonObject], delay_level: int = 0) -> JsonObject:
        """Give received messages back for a retry; a level below 0 makes them dead letters at once."""
        return await self._settle(group, "give-back", messages, delay_level=delay_level)

    async def extend(self, group: str, messages: Iterable[JsonObject], invisible: str) -> JsonObject:
        """Keep received messages invisible for ``invisible`` from now."""
        return await self._settle(group, "extend", messages, invisible_ms=whole_ms(invisible, "invisible"))

    async def browse(
        self,
        topic: str,
        queue_id: int,
        *,
        offset: int = 0,
        max_messages: int = 32,
        tags: str = "*",
        sql: str | None = None,
    ) -> JsonObject:
        """Read a queue from an offset on without consuming it. ``tags`` and ``sql`` as for ``receive``."""
        return await self._get(
            api_path("topics", topic, "queues", str(queue_id), "messages"),
            {"offset": offset, "max": max_messages, **_filter(tags, sql)},
        )

    async def message(self, message_id: str) -> JsonObject:
        """The history of a message: its records, deliveries and receipts."""
        return await self._get(api_path("messages", message_id))

    async def messages_by_key(
        self, key: str, *, topic: str | None = None, max_messages: int = 64
    ) -> list[JsonObject]:
        """The messages with this key, oldest first."""
        query = {"key": key, "topic": topic, "max": max_messages}
        return _list(await self._get(api_path("messages"), query), "messages")

    # Delayed messages

    async def levels(self) -> JsonObject:
        """The delay ``levels``, and what is ``timed`` (has an absolute due time), with pending messages."""
        return await self._get(api_path("levels"))

    async def delayed(
        self,
        *,
        topic: str | None = None,
        level: int | None = None,
        after: int | None = None,
        max_messages: int = 100,
    ) -> JsonObject:
        """A page of pending messages, oldest first; ``next_after`` is the ``after`` of the next page."""
        return await self._get(
            api_path("delayed"), {"topic": topic, "level": level, "after": after, "max": max_messages}
        )

    async def cancel(self, message_id: str) -> JsonObject:
        """Cancel a pending message."""
        return await self._call("DELETE", api_path("delayed", message_id))

    async def deliver(self, message_id: str) -> JsonObject:
        """Deliver a pending message now."""
        return await self._call("POST", api_path("delayed", message_id, "deliver"))

    # Transactions

    async def prepare(
        self, topic: str, body: str | bytes, *, group: str, **options: Unpack[MessageOptions]
    ) -> JsonObject:
        """Store a half message, about which producers of the group are asked."""
        half = {**outgoing(body, **options), "group": group}
        return await self._call("POST", api_path("topics", topic, "transactions"), half)

    async def transactions(
        self, *, topic: str | None = None, after: int | None = None, max_messages: int = 100
    ) -> JsonObject:
        """A page of open half messages, oldest first; ``next_after`` is the ``after`` of the next page."""
        return await self._get(
            api_path("transactions"), {"topic": topic, "after": after, "max": max_messages}
        )

    async def commit(self, message_id: str) -> JsonObject:
        """Commit a half message: it becomes visible, or waits for its due time."""
        return await self._call("POST", api_path("transactions", message_id, "commit"))

    async def rollback(self, message_id: str) -> JsonObject:
        """Roll a half message back: no consumer gets it."""
        return await self._call("POST", api_path("transactions", message_id, "rollback"))

    # Topics and groups

    async def topics(self) -> list[JsonObject]:
        """Every topic with its queues."""
        return _list(await self._get(api_path("topics")), "topics")

    async def topic(self, name: str) -> JsonObject:
        """One topic with its queues."""
        return await self._get(api_path("topics", name))

    async def put_topic(
        self,
        name: str,
        *,
        read_queues: int = 4,
        write_queues: int = 4,
        perm: str = "rw",
        type: str | None = None,  # noqa: A002 - as the API calls it
    ) -> JsonObject:
        """Create the topic, or change it.

        ``type``, of what gRPC clients may send: ``normal``, ``fifo``, ``delay``, ``transaction``, ``mixed``.
        """
        wanted = {"read_queues": read_queues, "write_queues": write_queues, "perm": perm}
        return await self._call(
            "PUT", api_path("topics", name), wanted if type is None else {**wanted, "type": type}
        )

    async def delete_topic(self, name: str) -> JsonObject:
        """Delete the topic with its messages, pending ones too."""
        return await self._call("DELETE", api_path("topics", name))

    async def groups(self) -> list[JsonObject]:
        """Every consumer group with its lag."""
        return _list(await self._get(api_path("groups")), "groups")

    async def group(self, name: str) -> JsonObject:
        """One consumer group with its lag."""
        return await self._get(api_path("groups", name))

    async def put_group(
        self, name: str, *, max_retries: int = 16, retry_queues: int = 1, fifo: bool | None = None
    ) -> JsonObject:
        """Create the consumer group, or change it. ``fifo``: whether its gRPC clients consume in order."""
        wanted = {"max_retries": max_retries, "retry_queues": retry_queues}
        return await self._call(
            "PUT", api_path("groups", name), wanted if fifo is None else {**wanted, "fifo": fifo}
        )

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
        """Let the consumer group begin again at the topic's start, or at one of the other places.

        ``instant_ms`` is that of the first message stored then or later; ``offset`` needs a ``queue_id``.
        """
        where = {"queue_id": queue_id, "to": to, "instant_ms": instant_ms, "offset": offset}
        given = {name: value for name, value in where.items() if value is not None}
        return await self._call("POST", api_path("groups", name, "reset"), {"topic": topic, **given})

    async def delete_group(self, name: str) -> JsonObject:
        """Delete the consumer group and its committed offsets."""
        return await self._call("DELETE", api_path("groups", name))

    async def clients(self) -> list[JsonObject]:
        """Every connected RocketMQ client, with its groups."""
        return _list(await self._get(api_path("clients")), "clients")

    async def running_info(self, client_id: str, *, group: str) -> JsonObject:
        """What a consumer reports of itself, as its library names it."""
        answer = await self._get(api_path("clients", client_id, "running-info"), {"group": group})
        info: JsonObject = answer["running_info"]
        return info

    async def consume(self, client_id: str, message_id: str, *, group: str) -> JsonObject:
        """Have a consumer consume a message now; returns the result."""
        return await self._call(
            "POST", api_path("clients", client_id, "consume"), {"group": group, "message_id": message_id}
        )

    # Injected faults

    async def add_fault(self, do: str, /, **rule: object) -> JsonObject:
        """Inject a fault: a rule with the fields of FaultRule, such as ``topic`` and ``next``."""
        return await self._call("POST", api_path("faults"), {"do": do, **rule})

    async def faults(self) -> list[JsonObject]:
        """Every rule for faults, with its counts."""
        return _list(await self._get(api_path("faults")), "faults")

    async def fault(self, name: str) -> JsonObject:
        """One rule with its counts."""
        return await self._get(api_path("faults", name))

    async def delete_fault(self, name: str) -> JsonObject:
        """End a rule."""
        return await self._call("DELETE", api_path("faults", name))

    async def clear_faults(self) -> list[JsonObject]:
        """End every rule; those that were ended."""
        return _list(await self._call("DELETE", api_path("faults")), "faults")

    # The clock and the broker

    async def clock(self) -> JsonObject:
        """The broker's time, and when something is due next."""
        return await self._get(api_path("clock"))

    async def advance(self, by: str) -> JsonObject:
        """Move the clock forward. All that becomes due on the way is delivered when this returns."""
        parse_duration_us(by, "by")
        return await self._call("POST", api_path("clock", "advance"), {"by": by})

    async def move_to(self, instant_ms: int) -> JsonObject:
        """Move the clock to an instant, as ``advance`` does."""
        return await self._call("POST", api_path("clock", "to"), {"instant_ms": instant_ms})

    async def move_to_next(self) -> JsonObject:
        """Move the clock to the next due time, as ``advance`` does."""
        return await self._call("POST", api_path("clock", "next"))

    async def reset(
        self,
        topic: str | None = None,
        *,
        clock: int | Literal["start"] | None = None,
        forget: bool = False,
    ) -> JsonObject:
        """Delete all messages, or those of one topic. Topics and groups stay.

        The clock stays, too, unless it is to begin anew: at an instant in milliseconds, or where it started.
        With ``forget`` only topics and groups stay that are declared or consumed by connected clients.
        """
        given = {"topic": topic, "clock": clock, "forget": forget or None}
        body = {name: value for name, value in given.items() if value is not None}
        return await self._call("POST", api_path("reset"), body)

    async def info(self) -> Info:
        """The broker's version, settings and limits, and the ports that it listens on."""
        return cast("Info", await self._get(api_path("info")))

    async def ready(self) -> JsonObject:
        """That the broker is ready; BrokerError with status 503 while it starts or stops. Needs no token."""
        return await self._get("/readyz")

    async def _settle(self, group: str, verb: str, messages: Iterable[JsonObject], **more: int) -> JsonObject:
        receipts = [message["receipt"] for message in messages]
        return await self._call("POST", api_path("groups", group, verb), {"receipts": receipts, **more})

    async def _get(self, path: str, query: Mapping[str, object] | None = None) -> JsonObject:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        return await self._call("GET", f"{path}?{urlencode(given)}" if given else path)

    async def _call(self, method: str, path: str, body: object = None) -> JsonObject:
        data, headers = None, self._headers
        if body is not None:
            data = json.dumps(body, ensure_ascii=False).encode()
            headers = {**headers, "Content-Type": "application/json"}
        return (await self._exchange(method, path, data, headers)).read(self.url)

    def _nobody(self) -> UnreachableError:
        return UnreachableError(
            f"no broker answers at {self.url}; start one with `mocketmq serve`, or give another address"
        )

    def _silent(self, error: Exception) -> UnreachableError:
        return UnreachableError(f"the broker at {self.url} did not answer: {error or type(error).__name__}")


def outgoing(body: str | bytes, **options: Unpack[MessageOptions]) -> JsonObject:
    """A message for ``send_batch``."""
    if isinstance(body, bytes):
        return {"body_base64": base64.b64encode(body).decode(), **options}
    return {"body": body, **options}


def _is_address(url: str) -> bool:
    try:
        address = urlsplit(url)
        return address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:  # of the port
        return False


def _filter(tags: str, sql: str | None) -> dict[str, str]:
    return {"filter": tags} if sql is None else {"filter": sql, "filter_type": "SQL92"}


def _list(answer: JsonObject, name: str) -> list[JsonObject]:
    found: list[JsonObject] = answer[name]
    return found
