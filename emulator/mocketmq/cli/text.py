"""Text on a terminal: which characters it takes, how wide they are, where lines end."""

import json
import unicodedata
from collections.abc import Callable, Iterator


def harmless(text: str, allowed: str = "") -> str:
    """Text from clients with control characters escaped, but those ``allowed``: terminals obey them."""
    return _escaped(text, allowed, lambda c: c.encode("unicode_escape").decode())


def harmless_json(text: str) -> str:
    """The same JSON, with those control characters escaped that it may have in its strings."""
    return _escaped(text, "\n", lambda c: json.dumps(c)[1:-1])


def _escaped(text: str, allowed: str, escape: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in allowed else escape(c) for c in text)


def cell_width(text: str) -> int:
    """The cells that the text takes: two for each character of Chinese, Japanese or Korean, and emoji."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def shortened(text: str, width: int) -> str:
    """The text on at most ``width`` cells; one that is wider ends with an ellipsis."""
    if cell_width(text) <= width:
        return text
    return next(_cut(text, max(width - 1, 1))) + "…"


def fold(text: str, width: int) -> Iterator[str]:
    """Lines of at most ``width`` cells. They end between words; a word that is wider is cut."""
    line, *words = text.split(" ")
    for word in words:
        longer = f"{line} {word}"
        if cell_width(longer) <= width:
            line = longer
        else:
            yield from _cut(line, width)
            line = word
    yield from _cut(line, width)


def _cut(word: str, width: int) -> Iterator[str]:
    """Parts of at most ``width`` cells, or of one character."""
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
