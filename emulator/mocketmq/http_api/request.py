"""Reads, decodes and checks the parts of a request: its client, parameters and body."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, Final

import msgspec

from mocketmq.errors import InvalidArgumentError
from mocketmq.event_loop import EventLoopTurns
from mocketmq.hosts import with_port
from mocketmq.http_api import web
from mocketmq.http_api.fields import Input
from mocketmq.http_api.invalid import converted
from mocketmq.http_api.problem import HttpError, MalformedJSONError
from mocketmq.settings import Settings

LONG_BYTES: Final = 32 << 10
"""Size above which bodies are decoded in several iterations of the event loop."""
MAX_VALUES: Final = 30_000
"""Maximum number of values in a body, which is thirty for each message of the largest batch."""
_KNOWN: Final = 256
"""Number of paths whose parameters are kept, because most requests name the same few topics and groups."""


class TooManyValuesError(HttpError):
    """The body has too many values, even if it is small."""

    status = 413
    field = "body"
    allowed = f"up to {MAX_VALUES} values, including those inside lists and objects"

    def __init__(self) -> None:
        super().__init__(f"the body contains more than {MAX_VALUES} values; send it in several requests")


def client_of(request: web.BaseRequest) -> str:
    """The client's address and port. The port is 0 after the client has disconnected."""
    transport = request.transport
    if transport is None:
        return address_of((request.remote or "127.0.0.1", 0))
    return address_of(transport.get_extra_info("peername"))


def host_of(request: web.BaseRequest) -> str:
    """The host that the client connected to, from the Host header or the socket's own address."""
    host = request.headers.get("Host")
    if host:
        return host
    transport = request.transport
    return address_of(transport and transport.get_extra_info("sockname"))


def address_of(of_socket: object) -> str:
    """Format an address of a socket, as asyncio returns it."""
    return with_port(*of_socket[:2]) if isinstance(of_socket, tuple) else "127.0.0.1:0"


def is_lost(request: web.BaseRequest) -> bool:
    """Whether the client has closed its connection, so that it cannot receive the response."""
    transport = request.transport
    return transport is None or transport.is_closing()


def max_body_bytes(settings: Settings) -> int:
    """The size limit of bodies.

    The limit fits the largest message, with its properties, in base64 or as text that escapes double in size.
    """
    return 2 * settings.max_message_bytes + (1 << 20)


def parameters_of(request: web.BaseRequest, in_path: Mapping[str, str], kind: type[Input]) -> Input:
    """The parameters of path and query. Raises InvalidArgumentError."""
    if not request.rel_url.raw_query_string:
        return _known_parameters(kind, *in_path.items())
    given = dict(in_path)
    for name, text in request.query.items():
        if name in given:
            raise InvalidArgumentError(name, text, "one value")
        given[name] = text
    return converted(given, kind, strict=False)


@lru_cache(maxsize=_KNOWN)
def _known_parameters(kind: type[Input], *in_path: tuple[str, str]) -> Input:
    return converted(dict(in_path), kind, strict=False)


def decoder(kind: type[Input]) -> Callable[[bytes], Input]:
    """Make a function that reads a JSON body and raises InvalidArgumentError, MalformedJSONError."""
    decode = msgspec.json.Decoder(kind).decode

    def checked(content: bytes) -> Input:
        try:
            return decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            with _reading_json():
                given = _with_integers(msgspec.json.decode(content))
        return converted(given, kind)

    return checked


async def decode_long(content: bytes, kind: type[Input], turns: EventLoopTurns) -> Input:
    """Decode like ``decoder``, but with each step in its own iteration of the event loop.

    The body is parsed only once. Also raises TooManyValuesError.
    """
    await turns.next_turn()
    if has_more_values(content, MAX_VALUES):
        raise TooManyValuesError
    await turns.next_turn()
    with _reading_json():
        given = msgspec.json.decode(content)
    await turns.next_turn()
    with suppress(msgspec.ValidationError):
        return msgspec.convert(given, kind)
    await turns.next_turn()
    with _reading_json():
        given = _with_integers(given)
    return converted(given, kind)


def has_more_values(content: bytes, limit: int) -> bool:
    """Whether the lists and objects of a JSON text have more than ``limit`` entries.

    Parsing costs little per byte but much per value. A text of 9 MB takes 20 ms, whereas 9 MB of ``{}`` take
    three seconds and hundreds of MB of memory, all in one iteration of the event loop. This function bounds
    the number of values by counting commas and brackets with methods of ``bytes``, which is a hundred times
    as fast as parsing.

    An empty list or object counts as one entry. The count also bounds how much of an invalid JSON text a
    parser reads before it fails.
    """
    if len(content) <= limit or _marks(content) <= limit:  # counts even commas and brackets inside strings
        return False
    without_escapes = content.replace(rb"\\", b"").replace(rb"\"", b"")
    if without_escapes.count(b'"') > 4 * limit + 2:  # an entry has at most two strings, a name and a value
        return True
    return _marks(b"".join(without_escapes.split(b'"')[::2])) > limit


def _marks(text: bytes) -> int:
    return len(text) - len(text.translate(None, b",[{"))


@contextmanager
def _reading_json() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise MalformedJSONError("the body is JSON that is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedJSONError(f"the body is not JSON in UTF-8: {error}") from None


def _with_integers(value: Any) -> Any:
    """Replace ``5.0`` by ``5`` in a value, because some clients write whole numbers that way."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_with_integers(one) for one in value]
        case dict():
            return {name: _with_integers(one) for name, one in value.items()}
    return value
