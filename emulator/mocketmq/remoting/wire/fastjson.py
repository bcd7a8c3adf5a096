"""Reads and writes JSON as RocketMQ's clients do, that is, standard JSON or the dialect of fastjson 1.2."""

import math
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec

from mocketmq.errors import InvalidArgumentError

MAX_JSON: Final = 1024 * 1024
"""Maximum size of standard JSON, in bytes. The parsed values may take fifty times as much memory."""
MAX_DIALECT: Final = 64 * 1024
"""Maximum size of JSON in the dialect, in bytes, because the dialect is slow to read."""
MAX_DEPTH: Final = 64
"""Maximum depth of nested objects and arrays in the dialect."""

_read: Final = msgspec.json.Decoder().decode
_write: Final = msgspec.json.Encoder().encode

_SPACE: Final = re.compile(r"[\s\b\ufeff]*+")
_STRING: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)"' r"|'((?:[^'\\]++|\\.)*+)'", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_NUMBER: Final = re.compile(r"-?\d++((?:\.\d++)?+(?:[eE][+-]?\d++)?+)", re.ASCII)
_NAME: Final = re.compile(r"-?[\w$]++", re.ASCII)
_ESCAPED: Final = {**dict(zip("bfnrtv", "\b\f\n\r\t\v", strict=True)), **{sign: sign for sign in "\"'\\/"}}
_WORDS: Final = {"true": True, "false": False, "null": None}


def loads(data: bytes) -> Any:
    """Parse JSON. Keys are always strings; an object used as a key becomes its text.

    The dialect adds keys without quotes (names, numbers, objects), single quotes, a comma after the last
    element, and any character inside a string. Invalid UTF-8 becomes U+FFFD, as in Java. Raises
    InvalidArgumentError for anything else, and for a text that is too large or too deeply nested.
    """
    if len(data) > MAX_JSON:
        raise _invalid(f"JSON of {len(data)} bytes; allowed: at most {MAX_JSON}")
    try:
        return _read(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if len(data) > MAX_DIALECT:
            raise _invalid(f"{error}; texts longer than {MAX_DIALECT} bytes must be standard JSON") from None
    return _DialectReader(data.decode("utf-8", "replace")).whole()


def dumps(value: Any) -> bytes:
    """Encode a value as compact standard JSON."""
    return _write(value)


def object_keys(pairs: Iterable[tuple[Any, Any]]) -> msgspec.Raw:
    """Encode ``{{"brokerName":…}:5}``, an object with objects as keys, as Java and Go expect it.

    The result is used as a value, as in ``dumps({"offsetTable": object_keys(pairs)})``.
    """
    return msgspec.Raw(b"{%b}" % b",".join([b"%b:%b" % (_write(key), _write(value)) for key, value in pairs]))


def _invalid(reason: str) -> InvalidArgumentError:
    return InvalidArgumentError("json", None, "JSON", reason)


class _DialectReader:
    """Parses one text in the dialect, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Any:
        """The value of the whole text."""
        value = self._value(0)
        if self._peek():
            raise self._expected("the end")
        return value

    def _value(self, depth: int) -> Any:
        first = self._peek()
        if first in ("{", "["):
            if depth == MAX_DEPTH:
                raise _invalid(f"not JSON: nested more than {MAX_DEPTH} levels deep")
            return self._object(depth + 1) if first == "{" else self._array(depth + 1)
        if first in ('"', "'"):
            return self._string()
        if first == "-" or first.isdecimal():
            return self._number()
        word = self._match(_NAME, "a value")[0]
        if word not in _WORDS:
            raise _invalid(f"not JSON: {word[:20]!r} without quotes is not a value")
        return _WORDS[word]

    def _object(self, depth: int) -> dict[str, Any]:
        members = {}
        self._at += 1
        while not self._skip("}"):
            key = self._key(depth)
            if not self._skip(":"):
                raise self._expected("':'")
            members[key] = self._value(depth)
            if not self._skip(",") and self._peek() != "}":
                raise self._expected("',' or '}'")
        return members

    def _array(self, depth: int) -> list[Any]:
        elements = []
        self._at += 1
        while not self._skip("]"):
            elements.append(self._value(depth))
            if not self._skip(",") and self._peek() != "]":
                raise self._expected("',' or ']'")
        return elements

    def _key(self, depth: int) -> str:
        first = self._peek()
        if first in ('"', "'"):
            return self._string()
        if first == "{":
            start = self._at
            self._value(depth)
            return self._text[start : self._at]
        return self._match(_NAME, "a key")[0]

    def _string(self) -> str:
        found = self._match(_STRING, "a string with a closing quote")
        text: str = found[1] or found[2] or ""
        if "\\" not in text:
            return text
        # A pair of surrogates becomes one character, a lone surrogate becomes U+FFFD.
        return (
            _ESCAPE.sub(self._unescaped, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )

    def _unescaped(self, found: re.Match[str]) -> str:
        digits, sign = found.groups()
        if digits:
            return chr(int(digits, 16))
        if sign not in _ESCAPED:
            raise _invalid(f"not JSON: {found[0]!r} is not an escape")
        return _ESCAPED[sign]

    def _number(self) -> int | float:
        found = self._match(_NUMBER, "a number")
        if found[1]:
            number = float(found[0])
            if abs(number) != math.inf:
                return number
        else:
            with suppress(ValueError):  # more digits than Python accepts
                return int(found[0])
        raise _invalid("not JSON: a number out of range")

    def _peek(self) -> str:
        """The next character that is not white space; empty at the end."""
        self._match(_SPACE, "")
        return self._text[self._at : self._at + 1]

    def _skip(self, sign: str) -> bool:
        """Skip the sign if it comes next; return whether it did."""
        is_next = self._peek() == sign
        self._at += is_next
        return is_next

    def _match(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if not found:
            raise self._expected(what)
        self._at = found.end()
        return found

    def _expected(self, what: str) -> InvalidArgumentError:
        there = self._text[self._at : self._at + 20]
        return _invalid(f"not JSON: at character {self._at} {what} is expected, not {there!r}")
