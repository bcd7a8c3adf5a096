"""Files of seeds in TOML, JSON lines or CSV: reads tables, finds the positions of values, changes times.

Each message is a table with the fields of the JSON API's SeedMessage. In TOML, messages are ``[[messages]]``,
beside ``[[progress]]``. JSON lines have one message per line. CSV has one per row, with the names of the
fields in the first row: ``keys`` and ``consumed_by`` are separated by spaces, ``failed`` and ``dead`` are
pairs such as ``billing:2``, a property has a column such as ``properties.region``, and an empty cell is a
field that is not given.
"""

import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

import msgspec

from mocketmq.errors import SeedError, shorten
from mocketmq.text_positions import Path, json_offsets, nearest_offset, path_of, position_at, toml_offsets

SeedFormat = Literal["toml", "jsonl", "csv"]

_CELL: Final = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|\r|\Z)')
_LISTS: Final = ("keys", "consumed_by")
_PAIRS: Final = ("failed", "dead")
_NUMBERS: Final = ("delay_level", "delay_ms", "start_deliver_ms", "queue_id", "priority", "born_ms", "flag")
_ARRAY: Final = "messages"
_TIMES: Final = ("sent_at", "deliver_at", "start_deliver_ms", "born_ms")
_TIME: Final = re.compile(r"""["']*([\w.:+-]+)""")
_MARK: Final = "\ufeff"
"""Byte-order mark, which spreadsheets write."""


class _Cell(NamedTuple):
    text: str
    offset: int


class SeedFile:
    """A file of seeds, which errors call ``name``."""

    def __init__(self, name: str, text: str, format: SeedFormat) -> None:  # noqa: A002 - the API's word
        self.name = name
        self._text = text.removeprefix(_MARK)
        self._format = format

    def tables(self) -> dict[str, Any]:
        """Read the file. Raises SeedError if its syntax is wrong."""
        match self._format:
            case "toml":
                return self._toml_tables()
            case "jsonl":
                return {_ARRAY: [self._json_message(line, at) for line, at in self._json_lines()]}
            case "csv":
                return {_ARRAY: list(self._csv_messages())}

    def place(self, field: str) -> str:
        """Name the file, the line and the column of a field, such as ``messages[3].delay``."""
        return f"{self.name}, {position_at(self._text, self._offset_of(path_of(field)))}"

    def offsets_of(self, fields: Collection[str]) -> Iterator[tuple[str, int]]:
        """The offset of each message's own fields with these names, in a text read by :meth:`tables`."""
        match self._format:
            case "toml":
                for path, at in self._toml_offsets.items():
                    if len(path) == len((_ARRAY, 0, "field")) and path[0] == _ARRAY and path[2] in fields:
                        yield str(path[2]), at
            case "jsonl":
                for line, at in self._json_lines():
                    for path, offset in json_offsets(line).items():
                        if len(path) == 1 and path[0] in fields:
                            yield str(path[0]), at + offset
            case "csv":
                columns, *rows = self._csv_rows() or [[]]
                for row in rows:
                    for column, cell in zip(columns, row, strict=True):
                        if column.text.strip() in fields:
                            yield column.text.strip(), cell.offset

    def _offset_of(self, path: Path) -> int:
        if self._format == "toml":
            return nearest_offset(self._toml_offsets, path)
        message = path[1] if len(path) > 1 and path[0] == _ARRAY else None
        if not isinstance(message, int):
            return 0
        if self._format == "jsonl":
            line, at = list(self._json_lines())[message]
            return at + nearest_offset(json_offsets(line), path[2:])
        columns, *rows = self._csv_rows()
        cells = dict(zip([column.text for column in columns], rows[message], strict=True))
        names = [path[2:], path[2:3]]
        found = (cells.get(".".join(map(str, name))) for name in names)
        return next((cell.offset for cell in found if cell is not None), rows[message][0].offset)

    # TOML

    def _toml_tables(self) -> dict[str, Any]:
        try:
            tables = tomllib.loads(self._text)
        except (ValueError, RecursionError) as error:
            raise SeedError("", f"{self.name}: the file is not TOML: {error}") from None
        found: dict[str, Any] = msgspec.to_builtins(tables)  # turns TOML's instants into text
        return found

    @cached_property
    def _toml_offsets(self) -> Mapping[Path, int]:
        return toml_offsets(self._text)

    # JSON lines

    def _json_lines(self) -> Iterator[tuple[str, int]]:
        """The lines that are not blank, with their offsets."""
        at = 0
        for line in self._text.split("\n"):
            if line.strip():
                yield line, at
            at += len(line) + 1

    def _json_message(self, line: str, at: int) -> object:
        try:
            return msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            pass
        offset, reason = at, "it is nested too deeply, or contains a number that is too long"
        try:
            json.loads(line)
        except json.JSONDecodeError as error:
            offset, reason = at + error.pos, error.msg
        except (ValueError, RecursionError):
            pass
        raise self._mistake(offset, f"the line is not JSON: {reason}")

    def _mistake(self, offset: int, reason: str) -> SeedError:
        """The error for a mistake at this offset of the text."""
        return SeedError("", f"{self.name}, {position_at(self._text, offset)}: {reason}")

    # CSV

    def _csv_messages(self) -> Iterator[dict[str, Any]]:
        columns, *rows = self._csv_rows() or [[]]
        names = [column.text.strip() for column in columns]
        if len(set(names)) < len(names) or "" in names:
            allowed = "names of fields, each once"
            raise SeedError("", f"{self.name}, line 1: the columns are {shorten(names)}; allowed: {allowed}")
        for row in rows:
            if len(row) != len(names):
                raise self._mistake(row[0].offset, f"the row has {len(row)} cells; allowed: {len(names)}")
            message: dict[str, Any] = {}
            for name, cell in zip(names, row, strict=True):
                if cell.text:
                    self._add_cell(message, name, cell)
            yield message

    def _add_cell(self, message: dict[str, Any], name: str, cell: _Cell) -> None:
        if name.startswith("properties."):
            message.setdefault("properties", {})[name.removeprefix("properties.")] = cell.text
        elif name in _LISTS:
            message[name] = cell.text.split()
        elif name in _PAIRS:
            pairs = (pair.rpartition(":") for pair in cell.text.split())
            message[name] = {group: _number(count) for group, _, count in pairs}
        elif name in _NUMBERS:
            message[name] = _number(cell.text)
        elif name == "body_json":
            try:
                message[name] = msgspec.json.decode(cell.text)
            except (msgspec.DecodeError, RecursionError) as error:
                raise self._mistake(cell.offset, f"body_json is not JSON: {error}") from None
        else:
            message[name] = cell.text

    def _csv_rows(self) -> list[list[_Cell]]:
        """The rows that are not blank. Raises SeedError for a quotation mark out of place."""
        rows: list[list[_Cell]] = []
        row: list[_Cell] = []
        at = 0
        while at < len(self._text):
            cell = _CELL.match(self._text, at)
            if cell is None:
                reason = 'the cell has a " out of place; allowed: "…" around a cell, with "" inside'
                raise self._mistake(at, reason)
            quoted = cell[1]
            row.append(_Cell(cell[2] if quoted is None else quoted.replace('""', '"'), at))
            at = cell.end()
            if cell[3] != ",":
                if len(row) > 1 or row[0].text:
                    rows.append(row)
                row = []
            elif at == len(self._text):
                row.append(_Cell("", at))
        if row:
            rows.append(row)
        return rows


def changed_times(text: str, file_format: SeedFormat, change: Callable[[str, str], str]) -> str:
    """Replace each message's own times in a file of seeds by what ``change(value, field)`` returns.

    All other text stays the same.
    """
    content = text.removeprefix(_MARK)
    file = SeedFile("", content, file_format)
    try:
        file.tables()
        offsets = sorted(file.offsets_of(_TIMES), key=itemgetter(1))
    except (SeedError, RecursionError):
        return text  # a broker refuses it, too
    parts, end = [text[: len(text) - len(content)]], 0
    for field, at in offsets:
        if found := _TIME.match(content, at):
            parts += [content[end : found.start(1)], change(found[1], field)]
            end = found.end()
    return "".join((*parts, content[end:]))


def _number(text: str) -> object:
    """Read a whole number. Other text is left to the check of the field, whose error quotes it."""
    return int(text) if re.fullmatch("-?[0-9]{1,18}", text) else text
