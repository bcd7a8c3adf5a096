"""Seed files, which the clients send as text and the broker parses."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple, Union

from mocketmq.client.answer import JsonObject
from mocketmq.errors import InvalidArgumentError

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""

SeedSource = Union[str, "os.PathLike[str]", Iterable[JsonObject]]
"""The path of a file, or messages with the fields of the API's SeedMessage."""

FORMATS: Final = {"toml": (".toml",), "jsonl": (".jsonl", ".ndjson"), "csv": (".csv",)}
"""The extensions of file names for each format."""


class SeedUpload(NamedTuple):
    """The text of a seed file, with its format and its name for errors."""

    text: str
    format: str
    name: str


def format_of(name: str) -> str:
    """Return the format of a file with this name. Raises InvalidArgumentError."""
    for found, endings in FORMATS.items():
        if name.lower().endswith(endings):
            return found
    known = ", ".join(one for each in FORMATS.values() for one in each)
    raise InvalidArgumentError("format", name, f"{', '.join(FORMATS)}; or a file that ends in {known}")


def seed_text(source: SeedSource) -> SeedUpload:
    """Read the file, or write the messages as JSON lines. Raises InvalidArgumentError."""
    if not isinstance(source, (str, os.PathLike)):
        return SeedUpload("\n".join(json.dumps(one, ensure_ascii=False) for one in source), "jsonl", "seed")
    name = os.fspath(source)
    found = format_of(name)
    try:
        return SeedUpload(Path(name).read_text("utf-8"), found, name)
    except (OSError, ValueError) as error:
        raise InvalidArgumentError("file", name, f"a readable file in UTF-8 ({error})") from None
