"""Markdown for pages that are generated from the code: escaped texts, wrapped paragraphs, tables."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from inspect import cleandoc

_WIDTH = 120
_CODE = re.compile(
    r"(?<![\w`.%/-])"
    r"(--[a-z][a-z0-9-]*|__[A-Z_]+|[A-Z]+_[A-Z_]*[A-Z]|[a-z]+(?:_[a-z]+)+(?:\.yml)?|\d+\.\d+(?:ms|s))"
    r"(?![\w`])"
)
"""Options, names of settings, variables and properties, and durations with a fraction."""
_PAGE = re.compile(r"docs/([\w/-]+\.md)")
_SPECIAL = re.compile(r"[*|]|(?<!\w)_|_(?!\w)")


def marked_up(text: str) -> str:
    """Escape a text for Markdown, mark code in it, and link the pages that it names."""
    parts = _CODE.sub(r"`\1`", text).split("`")
    for index in range(0, len(parts), 2):
        escaped = _SPECIAL.sub(lambda match: f"\\{match[0]}", parts[index].replace("<", "&lt;"))
        parts[index] = _PAGE.sub(r"[\1](\1)", escaped)
    return "`".join(parts)


def paragraphs(text: str) -> str:
    """Return a docstring or a command's help as paragraphs of Markdown."""
    return "\n\n".join(map(wrapped, re.split(r"\n\s*\n", marked_up(cleandoc(text)))))


def wrapped(text: str, *, indent: str = "") -> str:
    """Return one paragraph of Markdown in lines that fit the page, all but the first indented."""
    return textwrap.fill(
        " ".join(text.split()),
        _WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table, or nothing if it has no rows. The cells are Markdown."""
    lines = [f"| {' | '.join(row)} |".replace("  |", " |") for row in rows]
    if lines:
        yield "\n".join(
            [f"| {' | '.join(heading)} |".replace("  |", " |"), "|---" * len(heading) + "|", *lines]
        )


def sentence_case(text: str) -> str:
    """Return a text with a capital letter at its beginning, unless it begins with a name or with code."""
    return text[:1].upper() + text[1:] if re.match(r"[a-z]+[ ,]", text) else text
