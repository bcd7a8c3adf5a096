"""Prepares text for a terminal: escapes control characters, measures widths, folds, and counts."""

import json
import unicodedata
from collections.abc import Callable, Iterator


def harmless(text: str, allowed: str = "") -> str:
    """Escape the control characters in text from clients, which a terminal would obey, except ``allowed``."""
    return _escaped(text, allowed, lambda c: c.encode("unicode_escape").decode())


def harmless_json(text: str) -> str:
    """Escape the control characters that JSON allows in strings. The result is equivalent JSON."""
    return _escaped(text, "\n", lambda c: json.dumps(c)[1:-1])


def _escaped(text: str, allowed: str, escape: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in allowed else escape(c) for c in text)


def cell_width(text: str) -> int:
    """Count the terminal cells of a text. Each CJK character and emoji takes two cells."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def shortened(text: str, width: int) -> str:
    """Shorten a text to ``width`` cells, ending with an ellipsis if it was longer."""
    if cell_width(text) <= width:
        return text
    return next(_cut(text, max(width - 1, 1))) + "…"


def fold(text: str, width: int) -> Iterator[str]:
    """Fold a text between words into lines of at most ``width`` cells. Longer words are split."""
    line, *words = text.split(" ")
    for word in words:
        longer = f"{line} {word}"
        if cell_width(longer) <= width:
            line = longer
        else:
            yield from _cut(line, width)
            line = word
    yield from _cut(line, width)


def counted(number: int, what: str) -> str:
    """Format a number of things, such as ``1 message`` or ``1,000 messages``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _cut(word: str, width: int) -> Iterator[str]:
    """Split a word into parts of at most ``width`` cells, or of one character."""
    start = 0
    for end in range(1, len(word)):
        if cell_width(word[start : end + 1]) > width:
            yield word[start:end]
            start = end
    yield word[start:]


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
