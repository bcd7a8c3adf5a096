"""What the values of a recording are at the broker that it is replayed on: ids, handles, addresses, times.

A broker makes ids and handles of its own, and clients give them back. So the map learns from each pair of
answers what a recorded value has become, and puts that into the requests that follow. One value stands for
one other, in both directions: if the next pair says otherwise, the answers differ.
"""

import re
from typing import Final

from mocketmq.clock import US_PER_MS
from mocketmq.errors import InvalidArgumentError
from mocketmq.instant import format_instant, parse_instant_ms

TOLERANCE_MS: Final = 1_000
"""How far a time in an answer may be from the recorded one. A request may have taken that long."""
_IDENTITIES: Final = frozenset(
    (
        *("msgid", "msgids", "messageid", "messageids", "offsetmsgid", "offsetmessageid", "transactionid"),
        *("parkedoffsetmessageid", "receipt", "receipts", "receipthandle", "recallhandle", "handle", "nonce"),
        *("requestid", "uniqkey", "extrainfo", "popck", "originmessageid", "dlqoriginmessageid", "id"),
    )
)
"""Names of fields of ids and handles, in small letters and without other characters."""
_SHORTEST: Final = 8
"""Length of the shortest text that is put in the place of another."""
_PARTS: Final = re.compile(r"(\[?[\w.:-]{1,255}\]?:\d{1,5}(?!\d)|[^\W_]+(?:[\w+=-]*[\w+=-])?)")
"""Parts of a text that may stand for others: addresses with a port, and words."""
_ADDRESS: Final = re.compile(r"\[?[0-9A-Za-z.:-]+\]?:\d{1,5}")
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_MS_LETTERS: Final = len("2030-01-31T15:00:00.000Z")
_LENGTHS_MS: Final = {13: 1, 16: US_PER_MS}
"""Units of a time in milliseconds and microseconds, by its number of digits."""


def plain_name(name: str) -> str:
    """The name of a field without its protocol's manner: ``message_id``, ``messageId`` and ``MessageId``."""
    return re.sub("[^0-9a-z]", "", name.lower())


class ValueMap:
    """Recorded values and what they have become. ``shift_ms`` is from the recording's clock to this one."""

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
        """A text of a request with the values of this broker. ``shift_ms`` is for times not seen before."""
        known = self.changed_id(text)
        if known != text:
            return known
        instant = _ISO.sub(lambda found: self._shifted_iso(found[0], shift_ms), text)
        return _PARTS.sub(lambda found: self._part(found[0], shift_ms), instant)

    def changed_id(self, text: str) -> str:
        """The text itself, unless it is an id that is another one here."""
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
        """Whether a value of a field is what the recorded one has become."""
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
        """Whether an offset is as much higher than the recorded one as the queue was at the begin."""
        try:
            return int(found) - int(recorded) == self.offsets.get(owner, 0)
        except ValueError:
            return False

    def is_same_place(self, recorded: str, found: str) -> bool:
        """Whether a place in the log of all messages is the one that this recorded place stands for."""
        if recorded == found:
            return True
        known = self._places.setdefault(recorded, found)
        return known == found and self._recorded_places.setdefault(found, recorded) == recorded

    def moved_offset(self, owner: str, text: str) -> str:
        """An offset of a request, as it is here."""
        higher = self.offsets.get(owner, 0)
        return str(int(text) + higher) if higher and text.isdecimal() else text

    def moved_place(self, text: str) -> str:
        """A place in the log of a request, as it is here."""
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
        """Learn the times inside a handle, because clients put handles together of parts."""
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
        asked = self._times.get(str(recorded_ms))  # a time of the client, which the answer repeats
        if asked is not None and abs(found_ms - int(asked)) <= TOLERANCE_MS:
            return True
        return abs(found_ms - recorded_ms - self.shift_ms) <= TOLERANCE_MS

    def _learn(self, recorded: str, found: str) -> bool:
        """Learn a pair of values, or return False if one of them already belongs to another value."""
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
