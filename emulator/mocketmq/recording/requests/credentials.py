"""Removes credentials from recorded requests: access keys, signatures, passwords, tokens.

Credentials are found by their names, in fields, queries, JSON bodies and lines of ``name=value``. An
application's content of messages does not count as credentials; masks can hide it.

No regular expression runs over a whole body. Clients choose the bodies, so its time could grow with the
square of the size, and meanwhile no other thread could run.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from mocketmq.errors import InvalidArgumentError
from mocketmq.recording.masks import STARS
from mocketmq.remoting.wire import fastjson

_WORDS: Final = (
    *("password", "passwd", "secret", "signature", "token", "accesskey", "access_key", "access-key"),
    *("authorization", "credential"),
)
_NAME: Final = re.compile(r"\s*[\w.-]+\s*")
_DEEPEST: Final = 64


def without_credentials(fields: Mapping[str, str]) -> dict[str, str]:
    """Return fields with stars for the values of credentials."""
    return {name: STARS if _names_credential(name) else value for name, value in fields.items()}


def text_without_credentials(text: str, kept: Collection[str] = ()) -> str:
    """Return a body with stars for the values of credentials, otherwise unchanged.

    Fields in ``kept`` have content of messages. The whole body becomes stars if it names a credential and
    begins like JSON, but cannot be parsed.
    """
    if not _names_credential(text) and "\\u" not in text:
        return text
    if not text.lstrip().startswith(("{", "[")):
        return "\n".join(map(_line, text.split("\n")))
    try:
        document = _read(text)
    except (InvalidArgumentError, RecursionError):
        return STARS if _names_credential(text) else text
    found = _hidden(document, kept, 0)
    return text if found == document else msgspec.json.encode(found).decode()


def path_without_credentials(path: str) -> str:
    """Return a path with stars for the values of credentials in its query."""
    before, mark, query = path.partition("?")
    parts = [part.partition("=") for part in query.split("&")]
    return (
        before
        + mark
        + "&".join(
            name + equals + (STARS if equals and _names_credential(unquote(name)) else value)
            for name, equals, value in parts
        )
    )


def _names_credential(text: str) -> bool:
    small = text.lower()
    return any(word in small for word in _WORDS)


def _line(line: str) -> str:
    name, equals, value = line.partition("=")
    is_hidden = value and _NAME.fullmatch(name) is not None and _names_credential(name)
    return f"{name}{equals}{STARS}" if is_hidden else line


def _read(text: str) -> Any:
    """Read JSON of any dialect. Raises InvalidArgumentError, RecursionError."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return fastjson.loads(text.encode())


def _hidden(value: Any, kept: Collection[str], depth: int) -> Any:
    if depth > _DEEPEST:
        return STARS
    if isinstance(value, list):
        return [_hidden(each, kept, depth + 1) for each in value]
    if isinstance(value, dict):
        return {
            name: each
            if name in kept
            else _starred(each, depth + 1)
            if _names_credential(name)
            else _hidden(each, kept, depth + 1)
            for name, each in value.items()
        }
    return value


def _starred(value: Any, depth: int) -> Any:
    if isinstance(value, dict) and depth <= _DEEPEST:
        return {name: _starred(each, depth + 1) for name, each in value.items()}
    return value if value is None or isinstance(value, bool) else STARS
