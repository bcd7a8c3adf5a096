"""Where each value of a TOML or JSON text is, so that errors name a line and a column.

The standard parsers give no positions of values. These functions read a text that such a parser has accepted,
so they need not detect mistakes. The functions run only once there is an error to report.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

Path = tuple[str | int, ...]
"""Names and indices from the top of the text to a value, such as ``("messages", 3, "delay")``."""

_STEP: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_STRING: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}"
    r'|"(?:[^"\\]|\\.)*"'
    r"|'[^']*'",
    re.DOTALL,
)
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR: Final = re.compile(r"[^,\]}#\r\n]+")


class Position(NamedTuple):
    """A place in a text, counted from 1 in lines and characters."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


def position_at(text: str, offset: int) -> Position:
    """The position of a character."""
    return Position(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def path_of(field: str) -> Path:
    """Split the name of a field as errors write it, such as ``messages[3].delay``."""
    return tuple(int(index) if index else name for index, name in _STEP.findall(field))


def nearest_offset(offsets: Mapping[Path, int], path: Path) -> int:
    """The offset of a value, or of the innermost part around a value that is missing."""
    while path and path not in offsets:
        path = path[:-1]
    return offsets.get(path, 0)


def toml_offsets(text: str) -> dict[Path, int]:
    """The offset of every value and of every table's header in a valid TOML text."""
    return dict(_Reader(text, "=").document())


def json_offsets(text: str) -> dict[Path, int]:
    """The offset of every value in a valid JSON text."""
    reader = _Reader(text, ":")
    reader.skip(_BLANK)
    return dict(reader.value(()))


class _Reader:
    """Reads a text from ``at`` on, and yields the path and the offset of each value."""

    def __init__(self, text: str, separator: str) -> None:
        self._text = text
        self._separator = separator
        self.at = 0

    def document(self) -> Iterator[tuple[Path, int]]:
        table: Path = ()
        last: dict[Path, int] = {}  # index of the latest table in each array of tables
        self.skip(_BLANK)
        while self.at < len(self._text):
            start = self.at
            if self._takes("[["):
                table = self._array_table(self._key(), last)
                self.at += 2
                yield table, start
            elif self._takes("["):
                table = _within_arrays(self._key(), last)
                self.at += 1
                yield table, start
            else:
                yield from self._entry(table)
            self.skip(_BLANK)

    def _array_table(self, key: Path, last: dict[Path, int]) -> Path:
        """Begin the next table of an array, whose number is part of the paths of its values."""
        array = (*_within_arrays(key[:-1], last), key[-1])
        last[array] = last.get(array, -1) + 1
        return (*array, last[array])

    def _entry(self, table: Path) -> Iterator[tuple[Path, int]]:
        path = (*table, *self._key())
        self.skip(_SPACE if self._separator == "=" else _BLANK)
        self.at += 1  # the separator
        self.skip(_BLANK)
        yield from self.value(path)

    def _key(self) -> Path:
        """Read a key, which in TOML may have several parts."""
        parts = []
        while True:
            self.skip(_SPACE)
            if self._text[self.at] in "\"'":
                parts.append(self._unquoted(self._match(_STRING)))
            else:
                parts.append(self._match(_BARE_KEY))
            self.skip(_SPACE)
            if not self._takes("."):
                return tuple(parts)

    def _unquoted(self, key: str) -> str:
        """Read a string, whose escapes differ between the two languages."""
        return str(json.loads(key) if self._separator == ":" else tomllib.loads(f"key = {key}")["key"])

    def value(self, path: Path) -> Iterator[tuple[Path, int]]:
        yield path, self.at
        if self._takes("["):
            index = 0
            while not self._ends("]"):
                yield from self.value((*path, index))
                index += 1
        elif self._takes("{"):
            while not self._ends("}"):
                yield from self._entry(path)
        elif self._text[self.at] in "\"'":
            self._match(_STRING)
        else:
            self._match(_SCALAR)

    def _ends(self, bracket: str) -> bool:
        """Skip what separates the entries of a list or table. Returns whether the bracket closes it."""
        self.skip(_BLANK)
        if self._takes(","):
            self.skip(_BLANK)
        return self._takes(bracket)

    def _takes(self, token: str) -> bool:
        if not self._text.startswith(token, self.at):
            return False
        self.at += len(token)
        return True

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self.at)
        if found is None:
            raise ValueError(f"{position_at(self._text, self.at)} is not what the parser has accepted")
        self.at = found.end()
        return found[0]

    def skip(self, pattern: re.Pattern[str]) -> None:
        """Skip the text that the pattern matches, which may be empty."""
        self._match(pattern)


def _within_arrays(key: Path, last: Mapping[Path, int]) -> Path:
    """The path of a table. A name of an array of tables means the newest table of that array."""
    path: Path = ()
    for part in key:
        path = (*path, part)
        if path in last:
            path = (*path, last[path])
    return path
