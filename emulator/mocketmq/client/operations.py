"""The operations of the JSON API as methods, independent of the transport."""

from __future__ import annotations

import base64
import json
import os
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Literal, cast
from urllib.parse import unquote_to_bytes, urlencode, urlsplit

from mocketmq import DEFAULT_URL
from mocketmq.client.answer import JsonObject, RawAnswer, UnreachableError
from mocketmq.client.api_calls import Duration, Instant, api_path, duration_text, entries_of, instant_ms
from mocketmq.client.clustering import Clustering
from mocketmq.client.expecting import Expecting
from mocketmq.client.info import Info
from mocketmq.client.messaging import Messaging
from mocketmq.client.registering import Registering
from mocketmq.errors import InvalidArgumentError

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""
CONNECT_S = 10.0
"""Time limit for connecting, in real seconds. Responses have none, as a move of the clock may take long."""
_TOKENS = "printable ASCII characters"
_ONE = "one of the two"
_ZIP = b"PK"
_MAX_TEST = 1_000
_MAX_FAILURE = 200_000
"""Maximum numbers of characters in a pack. A longer failure keeps its end, which is the most useful part."""


def write_whole_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write or replace a file atomically, so that even a kill leaves no partial file. Raises OSError."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


class Operations(Messaging, Expecting, Registering, Clustering):
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

    # Injected faults

    async def add_fault(self, do: str, /, **rule: object) -> JsonObject:
        """Add a fault rule, with the fields of the API's FaultIn, such as ``topic`` and ``next``."""
        return await self._call("POST", api_path("faults"), {"do": do, **rule})

    async def faults(self) -> list[JsonObject]:
        """Return all fault rules with their counts."""
        return entries_of(await self._get(api_path("faults")), "faults")

    async def fault(self, name: str) -> JsonObject:
        """Return a fault rule with its counts."""
        return await self._get(api_path("faults", name))

    async def delete_fault(self, name: str) -> JsonObject:
        """Remove a fault rule."""
        return await self._call("DELETE", api_path("faults", name))

    async def clear_faults(self) -> list[JsonObject]:
        """Remove all fault rules, and return them."""
        return entries_of(await self._call("DELETE", api_path("faults")), "faults")

    # The clock and the broker

    async def clock(self) -> JsonObject:
        """Return the broker's time, and the due time of the next message."""
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

        The clock does not change, unless ``clock`` sets it: to an instant or, with ``start``, to the time at
        which it first started. ``forget`` deletes topics and groups that are neither declared in the settings
        nor used by connected clients.
        """
        begin = clock if clock in (None, "start") else instant_ms(clock, "clock")
        given = {"topic": topic, "clock": begin, "forget": forget or None}
        body = {name: value for name, value in given.items() if value is not None}
        return await self._call("POST", api_path("reset"), body)

    # Snapshots

    async def save_snapshot(self, name: str, *, replace: bool = False) -> JsonObject:
        """Save the broker's whole state under a name, for ``restore_snapshot``.

        Raises BrokerError with status 409 if the name is taken, unless ``replace`` is set.
        """
        return await self._call("POST", api_path("snapshots"), {"name": name, "replace": replace})

    async def restore_snapshot(self, name: str) -> JsonObject:
        """Restore messages, offsets, faults, topics, groups and the clock. Clients stay connected."""
        return await self._call("POST", api_path("snapshots", name, "restore"))

    async def snapshots(self) -> list[JsonObject]:
        """Return the snapshots, sorted by name."""
        return entries_of(await self._get(api_path("snapshots")), "snapshots")

    async def damaged_snapshots(self) -> list[JsonObject]:
        """Return the snapshot files that cannot be read, each with its ``name`` and the ``reason``."""
        return entries_of(await self._get(api_path("snapshots")), "damaged")

    async def delete_snapshot(self, name: str) -> JsonObject:
        """Delete a snapshot, and return its description."""
        return await self._call("DELETE", api_path("snapshots", name))

    async def snapshot_differences(self, name: str, to: str | None = None) -> list[JsonObject]:
        """Return the changes since a snapshot, up to another one or now; ``text`` describes each in words."""
        given = {} if to is None else {"to": to}
        return entries_of(await self._get(api_path("snapshots", name, "differences"), given), "differences")

    async def pack(self, file: str | PathLike[str], *, test: str = "", failure: str = "") -> JsonObject:
        """Write the broker's state and recent events to a file, which ``mocketmq open`` shows.

        ``test`` is the name of the failed test, and ``failure`` the text of its failure. An existing file is
        replaced. Returns the ``file`` and its ``bytes``. Raises OSError if the file cannot be written.
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


def _printable(text: str) -> str:
    """Replace surrogates, which represent bytes that are not UTF-8."""
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
