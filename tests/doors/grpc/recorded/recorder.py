"""A pytest plugin that records what gRPC clients send while their tests run; see README.md."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mocketmq.grpc_proxy.exchange import Exchange
from mocketmq.grpc_proxy.messages import message_class
from mocketmq.grpc_proxy.stream import Stream
from tests.clients.grpc.versions import versions
from tests.doors.grpc.recorded import Recorded

HEADERS = ("x-mq-", "authorization")
MAX_BYTES = 2_000
"""Maximum size of a recorded message."""
_LANGUAGES = {"HTTP": "node"}
"""Languages as clients name them, if the name differs from the client's name."""

_noted: dict[Path, dict[Any, tuple[str, Mapping[str, str], bytes]]] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Record each message that the server reads."""
    read, take = Exchange.read, Stream.message
    last = b""

    async def taking(stream: Stream) -> bytes | None:
        nonlocal last
        data = await take(stream)
        last = data or b""  # nothing awaits before ``read`` ends
        return data

    async def noting(exchange: Exchange) -> Any:
        message = await read(exchange)
        if message is not None and len(last) <= MAX_BYTES:
            _note(message, _own(exchange.stream.headers), last)
        return message

    setattr(Stream, take.__name__, taking)
    setattr(Exchange, read.__name__, noting)


def pytest_sessionfinish() -> None:
    """Append the recorded messages to the files next to this module, one message of each kind."""
    for file, kept in _noted.items():
        before = file.read_text("utf-8").splitlines() if file.exists() else []
        lines = [repr(one) for one in kept.values()]
        file.write_text("".join(f"{line}\n" for line in [*before, *lines]), "utf-8")


def record(file: Path, sent: Iterable[Recorded], every: Collection[str] = ()) -> None:
    """Write one message of each kind that a client sent, and all messages of the types in ``every``."""
    kept: dict[Any, tuple[str, Mapping[str, str], bytes]] = {}
    for number, one in enumerate(sent):
        if len(one.data) <= MAX_BYTES:
            kind = (number,) if one.kind in every else _kind(message_class(one.kind).FromString(one.data))
            kept.setdefault(kind, (one.kind, _own(one.headers), one.data))
    file.write_text("".join(f"{one!r}\n" for one in kept.values()), "utf-8")


def _note(message: Any, headers: Mapping[str, str], data: bytes) -> None:
    file = Path(__file__).with_name(f"{_client(headers)}.txt")
    _noted.setdefault(file, {}).setdefault(_kind(message), (message.DESCRIPTOR.name, headers, data))


def _own(headers: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in sorted(headers.items()) if name.startswith(HEADERS)}


def _kind(message: Any) -> tuple[str, ...]:
    return (message.DESCRIPTOR.name, *sorted(_fields(message)))


def _client(headers: Mapping[str, str]) -> str:
    language, version = headers["x-mq-language"], headers["x-mq-client-version"]
    name = _LANGUAGES.get(language, language.lower())
    return next(
        client for client, tested in versions().items() if client.startswith(name) and tested == version
    )


def _fields(message: Any, prefix: str = "") -> Iterator[str]:
    """Return the names of all set fields, at all depths."""
    for field, value in message.ListFields():
        yield f"{prefix}{field.name}"
        for each in value if hasattr(value, "add") else [value]:
            if hasattr(each, "ListFields"):
                yield from _fields(each, f"{prefix}{field.name}.")
