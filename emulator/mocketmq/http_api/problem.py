"""Turns errors into problem documents (RFC 9457)."""

import re
from collections.abc import Mapping
from typing import ClassVar, Final

import msgspec
from msgspec import UNSET, UnsetType

from mocketmq.errors import RefusedError, UnauthorizedError, as_emulator_error, wire_codes
from mocketmq.http_api import web

MEDIA_TYPE: Final = "application/problem+json"

_WORD: Final = re.compile(r"[A-Z](?:[a-z]+|[A-Z]+(?![a-z]))")


class HttpError(RefusedError):
    """Base class of errors that only HTTP has. Each subclass has its own status."""

    status: ClassVar[int]
    headers: Mapping[str, str] = {}


class MalformedJSONError(HttpError):
    """The body is not JSON."""

    status = 400
    field = "body"
    allowed = "a JSON object in UTF-8"


class Problem(msgspec.Struct, frozen=True):
    """The reason why a request failed (RFC 9457). `type` names the kind of error, `detail` describes it.

    `field` names the invalid field, and `allowed` describes its valid values.
    """

    type: str
    title: str
    status: int
    detail: str
    field: str | UnsetType = UNSET
    allowed: str | UnsetType = UNSET


def problem_response(error: Exception) -> web.Response:
    """The response to a request that failed with this error."""
    problem = problem_of(error)
    headers = {"Content-Type": MEDIA_TYPE, "X-Content-Type-Options": "nosniff"}
    if isinstance(error, HttpError):
        headers |= error.headers
    if isinstance(error, UnauthorizedError):
        headers["WWW-Authenticate"] = error.challenge
    return web.Response(status=problem.status, body=msgspec.json.encode(problem) + b"\n", headers=headers)


def problem_of(error: Exception) -> Problem:
    """The problem document of an error."""
    error = as_emulator_error(error)
    words = _WORD.findall(type(error).__name__.removesuffix("Error"))
    first, *others = (word if word.isupper() else word.lower() for word in words)
    return Problem(
        f"/problems/{'-'.join(words).lower()}",
        " ".join([first[0].upper() + first[1:], *others]),
        error.status if isinstance(error, HttpError) else wire_codes(error).http,
        _as_text(str(error)),
        getattr(error, "field", UNSET),
        _as_text(error.allowed) if hasattr(error, "allowed") else UNSET,
    )


def _as_text(words: str) -> str:
    """Make a text encodable as UTF-8.

    The text may quote a header, in which aiohttp has decoded invalid UTF-8 to lone surrogates.
    """
    return words.encode(errors="backslashreplace").decode()
