"""The operations of the JSON API as methods, independent of the transport."""

from __future__ import annotations

import base64
import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypedDict, cast
from urllib.parse import unquote_to_bytes, urlencode, urlsplit

from mocketmq import DEFAULT_URL, invisible_time
from mocketmq.client.answer import JsonObject, RawAnswer, UnreachableError
from mocketmq.client.expecting import Expecting, api_path
from mocketmq.client.info import Info
from mocketmq.client.seeds import SeedSource, seed_text
from mocketmq.client.times import Duration, Instant, duration_text, instant_ms
from mocketmq.client.whole_file import write_whole_file
from mocketmq.errors import InvalidArgumentError

if TYPE_CHECKING:
    from typing_extensions import Unpack

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""

CONNECT_S = 10.0
"""Real seconds to connect. Answers have no time limit: a move of the clock may take long."""

_TOKENS = "printable ASCII characters"
_ONE = "one of the two"

_ZIP = b"PK"
_MAX_TEST = 1_000
_MAX_FAILURE = 200_000
"""Largest numbers of characters that a pack takes. The end of a longer failure says most."""


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


class Operations(Expecting):
    """The operations of the broker at ``url``. Each raises BrokerError, UnreachableError.

    The URL may have a user's name and password, percent-encoded: ``http://name:password@host``. A client is a
    subclass whose :meth:`_exchange` sends the requests.
    """

    def __init__(self, url: str, token: str | None) -> None:
        user, self.url = _without_user(url.rstrip("/"))
        if not _is_address(self.url):
            allowed = f"an address such as {DEFAULT_URL}"
            without_password = f"url is hidden; allowed: {allowed}" if "@" in url else None
            raise InvalidArgumentError("url", url, allowed, without_password)
        if token and user:
            raise InvalidArgumentError(
                "token", "hidden", _ONE, f"token and the user in the url are both given; allowed: {_ONE}"
            )
        if token and not (token.isascii() and token.isprintable()):
            raise InvalidArgumentError("token", "hidden", _TOKENS, f"token is hidden; allowed: {_TOKENS}")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        if user:
            self._headers["Authorization"] = f"Basic {base64.b64encode(user).decode()}"

    @abstractmethod
    async def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> RawAnswer:
        """Send a request and read its response. Raises UnreachableError."""

    # Messages

    async def send(self, topic: str, body: str | bytes, **options: Unpack[MessageOptions]) -> JsonObject:
        """Send a message, which is durable on return."""
        return await self._call("POST", api_path("topics", topic, "messages"), outgoing(body, **options))

    async def send_batch(
        self, topic: str, messages: Sequence[JsonObject], *, advance: Duration | None = None
    ) -> list[JsonObject]:
        """Send up to 1,000 messages made by :func:`outgoing`, all or none, after a move of the clock."""
        body: JsonObject = {"messages": messages}
        if advance is not None:
            body["advance"] = duration_text(advance, "advance")
        return _list(await self._call("POST", api_path("topics", topic, "messages", "batch"), body), "sent")

    async def seed(self, source: SeedSource) -> JsonObject:
        """Store messages with a past, all or none: the path of a TOML, JSON lines or CSV file, or messages.

        docs/seeds.md describes their fields. Returns their ``message_ids``, in order.
        """
        text, file_format, name = seed_text(source)
        return await self.seed_text(text, file_format, name=name)

    async def seed_text(self, text: str, format: str, *, name: str = "seed") -> JsonObject:  # noqa: A002
        """Like ``seed``, with the text of a file: ``toml``, ``jsonl`` or ``csv``. Errors call it ``name``."""
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
        """Receive messages, waiting up to ``wait`` for the first; return an empty list if none came.

        The group's other consumers do not get the messages for ``invisible``. ``tags`` is a filter such as
        ``A || B``; ``sql`` is an SQL92 filter instead, such as ``price > 10``.
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
        return _list(answer, "messages")

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
        return _list(await self._get(api_path("messages"), query), "messages")

    # Delayed messages

    async def levels(self) -> JsonObject:
        """Return the delay ``levels``, and ``timed`` for absolute due times, with their pending messages."""
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

    # Topics and groups

    async def topics(self) -> list[JsonObject]:
        """Return all topics with their queues."""
        return _list(await self._get(api_path("topics")), "topics")

    async def topic(self, name: str) -> JsonObject:
        """Return a topic with its queues."""
        return await self._get(api_path("topics", name))

    async def put_topic(
        self,
        name: str,
        *,
        read_queues: int = 4,
        write_queues: int = 4,
        perm: str = "rw",
        type: str | None = None,  # noqa: A002 - as the API calls it
        lite_expiration: int | None = None,
    ) -> JsonObject:
        """Create the topic, or change it.

        ``type`` is the message type for gRPC clients: ``normal``, ``fifo``, ``delay``, ``transaction``,
        ``priority``, ``lite``, ``mixed``. Consumers of a ``priority`` topic get the highest queue's messages
        first. A lite topic of a ``lite`` topic is deleted ``lite_expiration`` minutes after its last message.
        """
        wanted = {"read_queues": read_queues, "write_queues": write_queues, "perm": perm}
        more = {"type": type, "lite_expiration": lite_expiration}
        given = {name: value for name, value in more.items() if value is not None}
        return await self._call("PUT", api_path("topics", name), {**wanted, **given})

    async def lite_topics(self, topic: str) -> list[JsonObject]:
        """Return the lite topics of the topic, with their offsets and subscribers."""
        return _list(await self._get(api_path("topics", topic, "lite-topics")), "lite_topics")

    async def create_topic(
        self,
        name: str,
        *,
        queues: int = 4,
        type: str | None = None,  # noqa: A002 - as the API calls it
    ) -> JsonObject:
        """Create the topic, or change it. ``put_topic`` lists the types, and also sets permissions."""
        return await self.put_topic(name, read_queues=queues, write_queues=queues, type=type)

    async def delete_topic(self, name: str) -> JsonObject:
        """Delete the topic with its messages, including pending ones."""
        return await self._call("DELETE", api_path("topics", name))

    async def groups(self) -> list[JsonObject]:
        """Return all consumer groups with their lag."""
        return _list(await self._get(api_path("groups")), "groups")

    async def group(self, name: str) -> JsonObject:
        """Return a consumer group with its lag."""
        return await self._get(api_path("groups", name))

    async def put_group(
        self,
        name: str,
        *,
        max_retries: int = 16,
        retry_queues: int = 1,
        fifo: bool | None = None,
        priority_factor: int | None = None,
        lite_parent: str | None = None,
        lite_exclusive: bool | None = None,
        lite_wildcard: bool | None = None,
        lite_quota: int | None = None,
    ) -> JsonObject:
        """Create the consumer group, or change it. With ``fifo``, its gRPC clients consume in order.

        ``priority_factor`` is how many of a hundred receives from a topic of type ``priority`` get the
        highest priority first. The group consumes the lite topics of the topic ``lite_parent``.
        """
        wanted = {"max_retries": max_retries, "retry_queues": retry_queues}
        more = {
            "fifo": fifo,
            "priority_factor": priority_factor,
            "lite_parent": lite_parent,
            "lite_exclusive": lite_exclusive,
            "lite_wildcard": lite_wildcard,
            "lite_quota": lite_quota,
        }
        given = {name: value for name, value in more.items() if value is not None}
        return await self._call("PUT", api_path("groups", name), {**wanted, **given})

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

        ``instant_ms`` means the first message stored then or later; ``offset`` needs a ``queue_id``.
        """
        where = {"queue_id": queue_id, "to": to, "instant_ms": instant_ms, "offset": offset}
        given = {name: value for name, value in where.items() if value is not None}
        return await self._call("POST", api_path("groups", name, "reset"), {"topic": topic, **given})

    async def delete_group(self, name: str) -> JsonObject:
        """Delete the consumer group and its committed offsets."""
        return await self._call("DELETE", api_path("groups", name))

    async def clients(self) -> list[JsonObject]:
        """Return the connected RocketMQ clients, with their groups."""
        return _list(await self._get(api_path("clients")), "clients")

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
        """Tell a gRPC client to connect anew; return on how many ``connections`` it was told."""
        return await self._call("POST", api_path("clients", client_id, "reconnect"))

    # Brokers of the cluster

    async def brokers(self) -> list[JsonObject]:
        """Return the brokers with their states."""
        return _list(await self._get(api_path("brokers")), "brokers")

    async def crash_broker(self, name: str) -> JsonObject:
        """Crash a broker. Routes name it for another 120 s by the broker's clock."""
        return await self._call("POST", api_path("brokers", name, "crash"))

    async def shut_down_broker(self, name: str) -> JsonObject:
        """Shut a broker down, which takes it out of all routes at once."""
        return await self._call("POST", api_path("brokers", name, "shutdown"))

    async def start_broker(self, name: str) -> JsonObject:
        """Start a broker again, which delivers what became due while it was down."""
        return await self._call("POST", api_path("brokers", name, "start"))

    async def wipe_broker(self, name: str) -> JsonObject:
        """Delete all messages and offsets of a broker that is down, as if its disk were lost."""
        return await self._call("POST", api_path("brokers", name, "wipe"))

    async def cut_off_broker(self, name: str, side: Literal["clients", "name-servers"]) -> JsonObject:
        """Cut a broker off from its clients, who get no answer, or from the name servers."""
        return await self._call("POST", api_path("brokers", name, f"cut-off-from-{side}"))

    async def reconnect_broker(self, name: str) -> JsonObject:
        """Reconnect a broker that is cut off."""
        return await self._call("POST", api_path("brokers", name, "reconnect"))

    async def set_broker_read_only(self, name: str, *, read_only: bool = True) -> JsonObject:
        """Make a broker read-only, or writable again. Routes say so at once."""
        return await self._call("POST", api_path("brokers", name, "read-only" if read_only else "writable"))

    # Name servers of the cluster

    async def name_servers(self) -> list[JsonObject]:
        """Return the name servers, with the brokers that each lists."""
        return _list(await self._get(api_path("name-servers")), "name_servers")

    async def stop_name_server(self, number: int) -> JsonObject:
        """Stop the name server with this number, from 1 on."""
        return await self._change_name_server(number, "stop")

    async def start_name_server(self, number: int) -> JsonObject:
        """Start a name server again."""
        return await self._change_name_server(number, "start")

    async def freeze_name_server(self, number: int) -> JsonObject:
        """Freeze a name server: its list of brokers no longer changes."""
        return await self._change_name_server(number, "freeze")

    async def hide_broker(self, number: int, broker: str) -> JsonObject:
        """Make a name server leave out a broker."""
        return await self._change_name_server(number, "hide", broker)

    async def keep_broker(self, number: int, broker: str) -> JsonObject:
        """Make a name server list a broker even while the broker is down."""
        return await self._change_name_server(number, "keep", broker)

    async def correct_name_server(self, number: int) -> JsonObject:
        """Make a name server tell the truth again about all brokers."""
        return await self._change_name_server(number, "correct")

    async def _change_name_server(self, number: int, *action: str) -> JsonObject:
        return await self._call("POST", api_path("name-servers", str(number), *action))

    # Injected faults

    async def add_fault(self, do: str, /, **rule: object) -> JsonObject:
        """Add a fault rule, with the fields of the API's FaultRule, such as ``topic`` and ``next``."""
        return await self._call("POST", api_path("faults"), {"do": do, **rule})

    async def faults(self) -> list[JsonObject]:
        """Return all fault rules with their counts."""
        return _list(await self._get(api_path("faults")), "faults")

    async def fault(self, name: str) -> JsonObject:
        """Return a fault rule with its counts."""
        return await self._get(api_path("faults", name))

    async def delete_fault(self, name: str) -> JsonObject:
        """Remove a fault rule."""
        return await self._call("DELETE", api_path("faults", name))

    async def clear_faults(self) -> list[JsonObject]:
        """Remove all fault rules, and return them."""
        return _list(await self._call("DELETE", api_path("faults")), "faults")

    # The clock and the broker

    async def clock(self) -> JsonObject:
        """Return the broker's time, and the next due time."""
        return await self._get(api_path("clock"))

    async def advance(self, by: Duration) -> JsonObject:
        """Move the clock forward. On return, all messages that became due on the way are delivered."""
        return await self._call("POST", api_path("clock", "advance"), {"by": duration_text(by, "by")})

    async def move_to(self, instant: Instant) -> JsonObject:
        """Move the clock to an instant, like ``advance``."""
        return await self._call(
            "POST", api_path("clock", "to"), {"instant_ms": instant_ms(instant, "instant")}
        )

    async def move_to_next(self) -> JsonObject:
        """Move the clock to the next due time, like ``advance``."""
        return await self._call("POST", api_path("clock", "next"))

    async def reset(
        self,
        topic: str | None = None,
        *,
        clock: Instant | Literal["start"] | None = None,
        forget: bool = False,
    ) -> JsonObject:
        """Delete all messages, or those of one topic. Topics and groups stay.

        So does the clock, unless ``clock`` restarts it at an instant, or with ``start`` at its first start.
        ``forget`` deletes topics and groups, except those that are declared or consumed by connected clients.
        """
        begin = clock if clock in (None, "start") else instant_ms(clock, "clock")
        given = {"topic": topic, "clock": begin, "forget": forget or None}
        body = {name: value for name, value in given.items() if value is not None}
        return await self._call("POST", api_path("reset"), body)

    # Snapshots

    async def save_snapshot(self, name: str, *, replace: bool = False) -> JsonObject:
        """Save the broker's whole state under a name, to which ``restore_snapshot`` goes back.

        Raises BrokerError with status 409 if the name is taken, unless ``replace`` is set.
        """
        return await self._call("POST", api_path("snapshots"), {"name": name, "replace": replace})

    async def restore_snapshot(self, name: str) -> JsonObject:
        """Go back to a snapshot: messages, offsets, faults, topics, groups and clock. Clients stay."""
        return await self._call("POST", api_path("snapshots", name, "restore"))

    async def snapshots(self) -> list[JsonObject]:
        """Return the snapshots, by name."""
        return _list(await self._get(api_path("snapshots")), "snapshots")

    async def damaged_snapshots(self) -> list[JsonObject]:
        """Return the snapshots' files that cannot be read, each with its ``name`` and the ``reason``."""
        return _list(await self._get(api_path("snapshots")), "damaged")

    async def delete_snapshot(self, name: str) -> JsonObject:
        """Delete a snapshot, and return what it was."""
        return await self._call("DELETE", api_path("snapshots", name))

    async def snapshot_differences(self, name: str, to: str | None = None) -> list[JsonObject]:
        """Return what happened after a snapshot, up to another one or now; ``text`` says each in words."""
        given = {} if to is None else {"to": to}
        return _list(await self._get(api_path("snapshots", name, "differences"), given), "differences")

    async def pack(self, file: str | PathLike[str], *, test: str = "", failure: str = "") -> JsonObject:
        """Write the broker's state and what led to it into a file, which ``mocketmq open`` shows.

        ``test`` and ``failure`` say what failed. An existing file is replaced. Returns the ``file`` and its
        ``bytes``. Raises OSError if the file cannot be written.
        """
        given = {"test": _printable(test[:_MAX_TEST]), "failure": _printable(failure[-_MAX_FAILURE:])}
        answer = await self._ask("POST", api_path("pack"), given)
        if not answer.body.startswith(_ZIP):
            answer.read(self.url)  # raises a BrokerError
        write_whole_file(file, answer.body)
        return {"file": str(file), "bytes": len(answer.body)}

    async def info(self) -> Info:
        """Return the broker's version, settings and limits, and its open ports."""
        return cast("Info", await self._get(api_path("info")))

    async def ready(self) -> JsonObject:
        """Check, without a token, that the broker is ready. Raises BrokerError with status 503 if not."""
        return await self._get("/readyz")

    async def _settle(
        self, group: str, verb: str, messages: JsonObject | Iterable[JsonObject], **more: int | str
    ) -> JsonObject:
        some = [messages] if isinstance(messages, Mapping) else messages
        receipts = [message["receipt"] for message in some]
        return await self._call("POST", api_path("groups", group, verb), {"receipts": receipts, **more})

    async def _get(self, path: str, query: Mapping[str, object] | None = None) -> JsonObject:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        return await self._call("GET", f"{path}?{urlencode(given)}" if given else path)

    async def _call(self, method: str, path: str, body: object = None) -> JsonObject:
        return (await self._ask(method, path, body)).read(self.url)

    async def _ask(self, method: str, path: str, body: object = None) -> RawAnswer:
        data, headers = None, self._headers
        if body is not None:
            data = json.dumps(body, ensure_ascii=False).encode()
            headers = {**headers, "Content-Type": "application/json"}
        return await self._exchange(method, path, data, headers)

    def _nobody(self) -> UnreachableError:
        return UnreachableError(
            f"no broker answers at {self.url}; start one with `mocketmq serve`, or give another address"
        )

    def _silent(self, error: Exception) -> UnreachableError:
        return UnreachableError(f"the broker at {self.url} did not answer: {error or type(error).__name__}")


def outgoing(body: str | bytes, **options: Unpack[MessageOptions]) -> JsonObject:
    """Make a message for ``send_batch``."""
    if "delay" in options:
        options["delay"] = duration_text(options["delay"], "delay")
    if isinstance(body, bytes):
        return {"body_base64": base64.b64encode(body).decode(), **options}
    return {"body": body, **options}


def _printable(text: str) -> str:
    """The text without surrogates, which stand for bytes that are not UTF-8."""
    return text.encode(errors="replace").decode()


def _without_user(url: str) -> tuple[bytes, str]:
    """Split a URL into the ``name:password`` in it, which may be empty, and the URL without them."""
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    user, _, host = authority.rpartition("@")
    return unquote_to_bytes(user), f"{scheme}{separator}{host}{slash}{path}"


def _is_address(url: str) -> bool:
    try:
        address = urlsplit(url)
        return address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:  # an invalid port
        return False


def _filter(tags: str, sql: str | None) -> dict[str, str]:
    return {"filter": tags} if sql is None else {"filter": sql, "filter_type": "SQL92"}


def _list(answer: JsonObject, name: str) -> list[JsonObject]:
    found: list[JsonObject] = answer[name]
    return found
