"""Conditions on sent messages: matches a message, and describes its differences."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from mocketmq.errors import shorten
from mocketmq.json_path import Step, parse_path, values_at
from mocketmq.message.body import shown_body
from mocketmq.message.properties import KEYS, TAGS

_NO_JSON = object()


class MessageMatcher(msgspec.Struct, frozen=True):
    """A set of conditions, all of which must hold; None is no condition. Made by :func:`make_matcher`.

    ``body`` is bytes, a text, or any other JSON value, which the parsed body must equal.
    """

    tag: str | None = None
    key: str | None = None
    message_id: str | None = None
    properties: Mapping[str, str] = {}
    delayed: bool | None = None
    delay_level: int | None = None
    body: Any = None
    json_path: Mapping[str, Any] = {}
    paths: Mapping[str, list[Step]] = {}

    @property
    def needs_body(self) -> bool:
        """Whether a condition is about the body."""
        return self.body is not None or bool(self.json_path)

    def differences(
        self, message_id: str, properties: Mapping[str, str], *, delayed: bool, level: int | None
    ) -> Iterator[str]:
        """Describe how a message differs, without its body."""
        if self.message_id not in (None, message_id):
            yield f"message_id: {message_id!r}, not {self.message_id!r}"
        if self.tag is not None and properties.get(TAGS) != self.tag:
            yield f"tag: {_shown(properties.get(TAGS))}, not {self.tag!r}"
        if self.key is not None and self.key not in (keys := properties.get(KEYS, "").split()):
            yield f"key: {', '.join(map(repr, keys)) or 'none'}, not {self.key!r}"
        for name, value in self.properties.items():
            if properties.get(name) != value:
                yield f"property {name}: {_shown(properties.get(name))}, not {shorten(value)}"
        if self.delayed not in (None, delayed):
            yield "not delayed" if self.delayed else "delayed"
        if self.delay_level not in (None, level or 0):
            yield f"delay_level: {level or 'none'}, not {self.delay_level}"

    def body_differences(self, content: bytes) -> Iterator[str]:
        """Describe how the body of a message differs."""
        if isinstance(self.body, bytes | str):
            wanted = self.body if isinstance(self.body, bytes) else self.body.encode()
            if content != wanted:
                yield f"body: {shown_body(content)}, not {shown_body(wanted)}"
        elif self.body is not None:
            document = _parsed(content)
            if document is _NO_JSON:
                yield f"body: {shown_body(content)} is not JSON, expected {shorten(self.body)}"
            elif not is_equal(document, self.body):
                yield f"body: {shorten(document)}, not {shorten(self.body)}"
        if self.json_path:
            yield from self._path_differences(_parsed(content), content)

    def _path_differences(self, document: Any, content: bytes) -> Iterator[str]:
        if document is _NO_JSON:
            yield f"body: {shown_body(content)} is not JSON"
            return
        for path, wanted in self.json_path.items():
            values = values_at(document, self.paths[path])
            if not any(is_equal(value, wanted) for value in values):
                yield f"{path}: {', '.join(map(shorten, values[:3])) or 'nothing'}, not {shorten(wanted)}"

    @property
    def conditions(self) -> int:
        """The number of conditions, which limits the number of differences."""
        given = (self.message_id, self.tag, self.key, self.delayed, self.delay_level, self.body)
        return sum(one is not None for one in given) + len(self.properties) + len(self.json_path)

    def __str__(self) -> str:
        """The conditions as a caller writes them; empty without conditions."""
        names = ("message_id", "tag", "key", "properties", "delayed", "delay_level", "body", "json_path")
        given = ((name, getattr(self, name)) for name in names)
        return ", ".join(f"{name}={shorten(value)}" for name, value in given if value not in (None, {}))


def make_matcher(json_path: Mapping[str, Any], **conditions: Any) -> MessageMatcher:
    """Make a matcher, and parse its paths. Raises InvalidArgumentError for an invalid path."""
    return MessageMatcher(
        **conditions, json_path=json_path, paths={path: parse_path(path) for path in json_path}
    )


def is_equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal. Unlike in Python, ``true`` does not equal 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    return bool(one == other)


def _shown(value: str | None) -> str:
    return "none" if value is None else shorten(value)


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return _NO_JSON
