"""Maps ids, handles, addresses and times of a recording to their values on the broker of the replay.

Each broker makes its own ids and handles, which clients send back. So the map learns the new value for each
recorded value from a pair of answers, and puts it into later requests. The mapping is one to one: a later
pair of answers that contradicts it is a difference.
"""

import re
from typing import Final

from mocketmq.clock import US_PER_MS
from mocketmq.errors import InvalidArgumentError
from mocketmq.instant import format_instant, parse_instant_ms

TOLERANCE_MS: Final = 1_000
"""Maximum distance of a time in an answer from the recorded time, because requests take time."""
_IDENTITIES: Final = frozenset(
    (
        *("msgid", "msgids", "messageid", "messageids", "offsetmsgid", "offsetmessageid", "transactionid"),
        *("parkedoffsetmessageid", "receipt", "receipts", "receipthandle", "recallhandle", "handle", "nonce"),
        *("requestid", "uniqkey", "extrainfo", "popck", "originmessageid", "dlqoriginmessageid", "id"),
    )
)
"""Names of fields with ids and handles, in the form of ``plain_name``."""
_SHORTEST: Final = 8
"""Minimum length of a text that is replaced."""
_PARTS: Final = re.compile(r"(\[?[\w.:-]{1,255}\]?:\d{1,5}(?!\d)|[^\W_]+(?:[\w+=-]*[\w+=-])?)")
"""Parts of a text that may be replaced: addresses with a port, and words."""
_ADDRESS: Final = re.compile(r"\[?[0-9A-Za-z.:-]+\]?:\d{1,5}")
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_MS_LETTERS: Final = len("2030-01-31T15:00:00.000Z")
_LENGTHS_MS: Final = {13: 1, 16: US_PER_MS}
"""Units per millisecond of a time in milliseconds or microseconds, by its number of digits."""


def plain_name(name: str) -> str:
    """Return one form for a field's name in all protocols: ``message_id``, ``messageId``, ``MessageId``."""
    return re.sub("[^0-9a-z]", "", name.lower())


class ValueMap:
    """Recorded values with their values here. ``shift_ms`` is this clock's lead over the recorded clock."""

    def __init__(self) -> None:
        self.shift_ms = 0
        self._found: dict[str, str] = {}
        self._recorded: dict[str, str] = {}
        self._times: dict[str, str] = {}
        self._places: dict[str, str] = {}
        self._recorded_places: dict[str, str] = {}
        self.offsets: dict[str, int] = {}
        """How much higher the offsets are here, by queue, as ``topic/number``."""

    # Requests

    def changed(self, text: str, shift_ms: int) -> str:
        """Return a request's text with this broker's values. ``shift_ms`` moves times not seen before."""
        known = self.changed_id(text)
        if known != text:
            return known
        instant = _ISO.sub(lambda found: self._shifted_iso(found[0], shift_ms), text)
        return _PARTS.sub(lambda found: self._part(found[0], shift_ms), instant)

    def changed_id(self, text: str) -> str:
        """Return the text, or this broker's id if the text is a recorded id."""
        return self._found.get(text, text)

    def _part(self, part: str, shift_ms: int) -> str:
        known = self._found.get(part) or self._times.get(part)
        if known is not None:
            return known
        if len(part) == 13 and part.isdecimal():
            shifted = str(int(part) + shift_ms)
            self._times[part] = shifted
            return shifted
        return part

    def _shifted_iso(self, text: str, shift_ms: int) -> str:
        at_ms = _iso_ms(text)
        return text if at_ms is None else format_instant(int(self._part(str(at_ms), shift_ms)) * US_PER_MS)

    # Answers

    def is_same(self, name: str, recorded: object, found: object) -> bool:
        """Whether a field's value corresponds to the recorded value."""
        if isinstance(recorded, bool) or isinstance(found, bool):
            return recorded is found
        if recorded == found:
            return True
        if isinstance(recorded, int | float) and isinstance(found, int | float):
            return self._is_same_part(name, str(recorded), str(found))
        if isinstance(recorded, str) and isinstance(found, str):
            return self._is_same_text(name, recorded, found)
        return False

    def is_same_offset(self, owner: str, recorded: str, found: str) -> bool:
        """Whether an offset differs from the recorded one by the queue's difference at the start."""
        try:
            return int(found) - int(recorded) == self.offsets.get(owner, 0)
        except ValueError:
            return False

    def is_same_place(self, recorded: str, found: str) -> bool:
        """Whether a log offset corresponds to the recorded log offset."""
        if recorded == found:
            return True
        known = self._places.setdefault(recorded, found)
        return known == found and self._recorded_places.setdefault(found, recorded) == recorded

    def moved_offset(self, owner: str, text: str) -> str:
        """Return this broker's offset for a recorded offset."""
        higher = self.offsets.get(owner, 0)
        return str(int(text) + higher) if higher and text.isdecimal() else text

    def moved_place(self, text: str) -> str:
        """Return this broker's log offset for a recorded one."""
        return self._places.get(text, text)

    def _is_same_text(self, name: str, recorded: str, found: str) -> bool:
        if _ISO.fullmatch(recorded) and _ISO.fullmatch(found):
            return self._is_near(_iso_ms(recorded), _iso_ms(found))
        if plain_name(name) in _IDENTITIES and self._learn(recorded, found):
            self._learn_parts(recorded, found)
            return True
        theirs, ours = _PARTS.split(recorded), _PARTS.split(found)
        return len(theirs) == len(ours) and all(
            one == other or (number % 2 == 1 and self._is_same_part(name, one, other))
            for number, (one, other) in enumerate(zip(theirs, ours, strict=True))
        )

    def _learn_parts(self, recorded: str, found: str) -> None:
        """Learn the times inside a handle, because clients assemble handles from parts."""
        theirs, ours = _PARTS.split(recorded), _PARTS.split(found)
        if len(theirs) == len(ours) > 3:
            for one, other in zip(theirs, ours, strict=True):
                if one != other:
                    self._is_same_part("", one, other)

    def _is_same_part(self, name: str, recorded: str, found: str) -> bool:
        if self._found.get(recorded) == found or self._times.get(recorded) == found:
            return True
        if recorded.isdecimal() and found.isdecimal():
            unit = _LENGTHS_MS.get(len(recorded))
            if unit is None or len(found) != len(recorded):
                return False
            if not self._is_near(int(recorded) // unit, int(found) // unit):
                return False
            self._times[recorded] = found
            return True
        if _ADDRESS.fullmatch(recorded) and _ADDRESS.fullmatch(found):
            return self._learn(recorded, found)
        return plain_name(name) in _IDENTITIES and self._learn(recorded, found)

    def _is_near(self, recorded_ms: int | None, found_ms: int | None) -> bool:
        if recorded_ms is None or found_ms is None:
            return False
        asked = self._times.get(str(recorded_ms))  # a time in the request, which the response repeats
        if asked is not None and abs(found_ms - int(asked)) <= TOLERANCE_MS:
            return True
        return abs(found_ms - recorded_ms - self.shift_ms) <= TOLERANCE_MS

    def _learn(self, recorded: str, found: str) -> bool:
        """Learn a pair of values. Return False if one of them already belongs to another value."""
        if min(len(recorded), len(found)) < _SHORTEST:
            return False
        known = self._found.get(recorded), self._recorded.get(found)
        if known == (None, None):
            self._found[recorded], self._recorded[found] = found, recorded
            return True
        return known == (found, recorded)


def _iso_ms(text: str) -> int | None:
    """Milliseconds of an instant, rounded down, as brokers repeat it."""
    try:
        return parse_instant_ms(text if len(text) <= _MS_LETTERS else f"{text[: _MS_LETTERS - 1]}Z")
    except InvalidArgumentError:
        return None
