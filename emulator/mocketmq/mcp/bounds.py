"""Bounds the answers of tools, because agents pay for each token, and their hosts cut long answers."""

import json
from typing import Final, TypeVar

from mocketmq.client.answer import JsonObject

_T = TypeVar("_T")

MAX_ANSWER: Final = 20_000
"""Maximum number of characters in an answer."""

_LIMITS: Final = ((256, 1_000), (128, 500), (64, 500), (32, 500), (16, 500), (8, 500), (4, 100), (2, 50))
"""Limits tried in order: entries of each list or object, and characters of each text."""


def bounded(answer: JsonObject) -> str:
    """Write the answer as JSON of at most :data:`MAX_ANSWER` characters.

    Long lists lose their middle, and long texts their end; a note says how much is missing.
    """
    for entries, characters in _LIMITS:
        text = json.dumps(_cut(answer, entries, characters), ensure_ascii=False)
        if len(text) <= MAX_ANSWER:
            return text
    note = f"… ({len(text):,} characters; ask for less)"
    return text[: MAX_ANSWER - len(note)] + note


def _cut(value: object, entries: int, characters: int) -> object:
    match value:
        case str() if len(value) > characters:
            return f"{value[:characters]}… ({len(value):,} characters)"
        case list():
            shown = [_cut(one, entries, characters) for one in _ends(value, entries)]
            if len(value) > entries:
                shown.insert(entries // 2, f"… ({len(value) - entries:,} left out; ask for fewer)")
            return shown
        case dict():
            kept = _ends([*value.items()], max(entries, 64))  # objects rarely have many fields
            table = {
                str(_cut(name, entries, characters)): _cut(one, entries, characters) for name, one in kept
            }
            if len(value) > len(kept):
                table["…"] = f"{len(value) - len(kept):,} left out"
            return table
    return value


def _ends(values: list[_T], most: int) -> list[_T]:
    """Return the list, or its first and its last entries."""
    return values if len(values) <= most else [*values[: most // 2], *values[-(most - most // 2) :]]
