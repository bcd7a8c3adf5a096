"""Reads the nodes of a YAML file, so that each mistake is reported with its line.

Errors never quote a value that may be a secret. All values are text, so a secret ``012`` keeps its zero.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mocketmq.errors import shorten

_Value = TypeVar("_Value")

Node = Any
"""A PyYAML node, or None if it is missing. The type is Any because PyYAML is imported late."""


class AccessFileError(ValueError):
    """The file with the accounts is invalid."""

    def __init__(self, line: int | None, reason: str) -> None:
        super().__init__(reason if line is None else f"line {line}: {reason}")


def parse_yaml(text: str) -> Node:
    """Parse a file's text; None if it is empty. Raises AccessFileError with the line of the mistake."""
    import yaml  # noqa: PLC0415 - slow, and few brokers need it

    try:
        return yaml.compose(text, yaml.BaseLoader)
    except RecursionError:
        raise AccessFileError(None, "it is nested too deeply") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", None) or getattr(error, "reason", None))
        problem = re.sub("'.{2,}'", "…", problem)  # PyYAML's text may quote a secret
        raise AccessFileError(None if mark is None else mark.line + 1, f"it is not YAML: {problem}") from None


def mistake(node: Node, reason: str) -> AccessFileError:
    """The error for a mistake in this node."""
    return AccessFileError(node.start_mark.line + 1, reason)


def value_of(node: Node, read: Callable[[str], _Value], text: str | None = None) -> _Value:
    """Read the node's text, or another, by a function that raises ValueError for a mistake."""
    try:
        return read(text_of(node) if text is None else text)
    except ValueError as error:
        raise mistake(node, str(error)) from None


def text_of(node: Node) -> str:
    """The node's text, which is empty for null."""
    if node.id != "scalar":
        raise mistake(node, f"this is a {node.id}; allowed: one value")
    text: str = node.value
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        raise mistake(node, "an escape stands for half a character; allowed: whole characters")
    return "" if text in ("null", "~") and node.style is None else text


def list_of(node: Node) -> list[Node]:
    """The items of a list, which may be missing."""
    if node is None or (node.id == "scalar" and not text_of(node)):
        return []
    if node.id != "sequence":
        raise mistake(node, f"this is a {node.id}; allowed: a list, whose lines begin with -")
    return list(node.value)


def mapping_of(node: Node, allowed: tuple[str, ...], what: str) -> Mapping[str, Node]:
    """The values of a mapping that has only ``allowed`` keys, each once."""
    if node.id != "mapping":
        raise mistake(node, f"{what} is a {node.id}; allowed: {', '.join(allowed)}")
    found: dict[str, Node] = {}
    for key, value in node.value:
        name = text_of(key)
        if name not in allowed:
            shown = shorten(name.partition(":")[0])  # the rest may be a secret
            raise mistake(key, f"{what} has no {shown}; allowed: {', '.join(allowed)}")
        if name in found:
            raise mistake(key, f"{name} is repeated; allowed: once")
        found[name] = value
    return found
