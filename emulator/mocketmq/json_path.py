"""JSON paths: a small subset of RFC 9535, with which tests select values in a body.

``$`` is the whole body. Steps follow: ``.name`` or ``['name']`` for a member of an object, ``[0]`` for an
entry of a list, ``[-1]`` for the last entry, and ``.*`` or ``[*]`` for every member or entry. Filters, slices
and ``..`` are not supported.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from mocketmq.errors import InvalidArgumentError

PATHS: Final = "a path such as $.order.id, $.lines[0].sku, $.lines[*]['unit price'] or $"
PATTERN: Final = (
    r"^\$(?:\.(?:\*|[^ .\[\]'\"*$]+)|\[(?:\*|-?(?:0|[1-9][0-9]{0,8})|'[^'\\]*'|\"[^\"\\]*\")\])*$"
)

_PATH: Final = re.compile(PATTERN)
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\*|-?[0-9]+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")

_EVERY: Final = None
Step = str | int | None
"""A member's name, an entry's index, or None for all members or entries."""


def parse_path(text: str) -> list[Step]:
    """Parse a path into its steps. Raises InvalidArgumentError."""
    if not _PATH.fullmatch(text):
        raise InvalidArgumentError("json_path", text, PATHS)
    return [_step(*found.groups()) for found in _STEP.finditer(text)]


def _step(name: str | None, index: str | None, *quoted: str | None) -> Step:
    if "*" in (name, index):
        return _EVERY
    return int(index) if index is not None else next(one for one in (name, *quoted) if one is not None)


def values_at(document: Any, steps: Iterable[Step]) -> list[Any]:
    """Return every value of the document that the path selects."""
    values = [document]
    for step in steps:
        values = [value[place] for value in values for place in _places(value, step)]
    return values


def change_at(document: Any, steps: Sequence[Step], change: Callable[[Any], Any]) -> Any:
    """Return the document, changed in place at every value that the path selects."""
    if not steps:
        return change(document)
    step, below = steps[0], steps[1:]
    for place in _places(document, step):
        document[place] = change_at(document[place], below, change)
    return document


def _places(value: Any, step: Step) -> list[Any]:
    match value, step:
        case dict(), None:
            return list(value)
        case list(), None:
            return list(range(len(value)))
        case dict(), str() if step in value:
            return [step]
        case list(), int() if -len(value) <= step < len(value):
            return [step]
    return []
