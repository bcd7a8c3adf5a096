"""Masks, which make parts of messages unreadable before a recording is written.

A starred text becomes ``***``. A hashed text becomes 16 hexadecimal digits of its HMAC-SHA256, so equal
values stay equal, and only somebody with the key can test guesses of a value. Numbers stay numbers, so that
programs can still read the body: a starred number becomes 0, and a hashed number becomes a number of at most
15 digits. A boolean becomes false. Objects and lists keep their structure. A body that is masked entirely
becomes a text.
"""

import hashlib
import hmac
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mocketmq.errors import InvalidArgumentError
from mocketmq.json_path import Step, change_at, parse_path, values_at
from mocketmq.message.properties import (
    CLUSTER,
    FIRST_POP_TIME,
    KEYS,
    POP_CK,
    RESERVED,
    START_DELIVER_TIME,
    TAGS,
    TIMERS,
    UNIQ_KEY,
)

STARS: Final = "***"
_ALLOWED: Final = (
    "body, a path in it such as body.phone or body.lines[*].name, properties, properties.NAME, keys"
    " or tag; with =hash at its end, to hash the value instead of replacing it by stars"
)
OF_BROKERS: Final = RESERVED | {
    *(CLUSTER, FIRST_POP_TIME, POP_CK, START_DELIVER_TIME, *TIMERS),
    *("TIMER_DELAY_LEVEL", "TIMER_DEQUEUE_MS", "TIMER_ENQUEUE_MS", "TIMER_ROLL_TIMES"),
    *("MSG_REGION", "TRACE_ON", "__CRC32#", "DUP_INFO"),
}
"""Properties that brokers and client libraries set, or that have their own field in a recording."""
_FIELDS: Final = {"keys": KEYS, "tag": TAGS}
_DIGITS: Final = 10**15
_PROPERTY: Final = "properties."


class _Mask(NamedTuple):
    """A mask of the body (``steps``), of a property, or of all user properties (neither)."""

    text: str
    is_hashed: bool
    steps: Sequence[Step] | None = None
    name: str = ""


class Masks:
    """Masks bodies and properties.

    ``broken`` counts bodies that were masked entirely because they are not JSON. ``matches`` counts, for each
    mask, the messages in which the mask matched.

    Each of the texts is a place followed by ``=hash`` or ``=star``. Raises InvalidArgumentError for an
    invalid text.
    """

    def __init__(self, texts: Sequence[str], key: bytes) -> None:
        self.texts = list(texts)
        self.broken = 0
        self._key = key
        self._masks = [_parsed(text) for text in texts]
        self.hashes = any(mask.is_hashed for mask in self._masks)
        self._of_body = [mask for mask in self._masks if mask.steps is not None]
        self.matches = dict.fromkeys(texts, 0)

    @property
    def key_check(self) -> str:
        """A text that is the same for equal keys; empty if no mask hashes."""
        return self._digest("mocketmq recording") if self.hashes else ""

    def body(self, body: bytes, *, is_plain: bool) -> bytes:
        """Mask a body. A body that is not JSON, or is compressed (not ``is_plain``), is masked entirely."""
        if not self._of_body:
            return body
        for mask in self._of_body:
            if not mask.steps:
                self.matches[mask.text] += 1
                return self._digest(body.hex()).encode() if mask.is_hashed else STARS.encode()
        try:
            document = msgspec.json.decode(body) if is_plain else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            document = None
        if not isinstance(document, dict | list):
            self.broken += 1
            return STARS.encode()
        try:
            for mask in self._of_body:
                steps = mask.steps or ()
                if values_at(document, steps):
                    self.matches[mask.text] += 1
                    change_at(document, steps, self._change(mask))
            return msgspec.json.encode(document)
        except RecursionError:
            return STARS.encode()

    def value_in_body(self, path: str, value: Any) -> Any:
        """Mask a value that a JSON path selects in bodies."""
        try:
            steps = parse_path(path)
        except InvalidArgumentError:
            return STARS
        for mask in self._of_body:
            own = mask.steps or ()
            if all(map(_may_meet, own, steps)):
                value = change_at(value, own[len(steps) :], self._change(mask))
        return value

    def _change(self, mask: _Mask) -> Callable[[Any], Any]:
        return self._hashed if mask.is_hashed else _starred

    def properties(self, properties: dict[str, str]) -> dict[str, str]:
        """Mask properties. ``properties`` means the user's; only their names mask brokers' properties."""
        masked = dict(properties)
        for mask in self._masks:
            if mask.steps is not None:
                continue
            names = {mask.name} if mask.name else masked.keys() - OF_BROKERS
            found = names & masked.keys()
            self.matches[mask.text] += bool(found)
            for name in found:
                change = self._digest if mask.is_hashed else _stars
                words = masked[name].split() if name == KEYS else [masked[name]]
                masked[name] = " ".join(dict.fromkeys(map(change, words)))
        return masked

    def _digest(self, text: str) -> str:
        return hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hex()[:16]

    def _hashed(self, value: Any) -> Any:
        match value:
            case str():
                return self._digest(value)
            case bool() | None:
                return _starred(value)
            case int() | float():
                return int(self._digest(str(value)), 16) % _DIGITS
            case list():
                return [self._hashed(each) for each in value]
            case _:
                return {name: self._hashed(each) for name, each in value.items()}


def _starred(value: Any) -> Any:
    match value:
        case str():
            return STARS
        case bool():
            return False
        case int() | float():
            return 0
        case list():
            return [_starred(each) for each in value]
        case dict():
            return {name: _starred(each) for name, each in value.items()}
    return value


def _may_meet(one: Step, other: Step) -> bool:
    """Whether two steps may select the same entry. An index from the end may equal any from the beginning."""
    if isinstance(one, int) and isinstance(other, int) and (one < 0) != (other < 0):
        return True
    return one is None or other is None or one == other


def _stars(_: str) -> str:
    return STARS


def _parsed(text: str) -> _Mask:
    place, _, how = text.partition("=")
    is_hashed = how == "hash"
    if how not in ("", "star", "hash"):
        raise InvalidArgumentError("mask", text, _ALLOWED)
    if place == "body" or place.startswith(("body.", "body[")):
        try:
            return _Mask(text, is_hashed, parse_path("$" + place.removeprefix("body")))
        except InvalidArgumentError:
            raise InvalidArgumentError("mask", text, _ALLOWED) from None
    if place in _FIELDS:
        return _Mask(text, is_hashed, name=_FIELDS[place])
    if place == "properties":
        return _Mask(text, is_hashed)
    if place == _PROPERTY + UNIQ_KEY:
        raise InvalidArgumentError(
            "mask", text, f"other properties, because {UNIQ_KEY} tells apart the messages of a recording"
        )
    if place.startswith(_PROPERTY) and len(place) > len(_PROPERTY):
        return _Mask(text, is_hashed, name=place.removeprefix(_PROPERTY))
    raise InvalidArgumentError("mask", text, _ALLOWED)
