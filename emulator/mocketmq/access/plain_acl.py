"""Reads accounts from RocketMQ's configuration file ``plain_acl.yml`` (PlainAccessConfig.java, 4.9.8).

Upstream ignores many mistakes in the file, and denies access for entries that it cannot parse. mocketmq
refuses such a file, and names the line of the first mistake. Errors never quote a secret. All values are
text, so a secret ``012`` keeps its zero.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from mocketmq.access.accounts import Account, Accounts, Permission
from mocketmq.access.addresses import parse_addresses
from mocketmq.errors import shorten
from mocketmq.message.names import RETRY_PREFIX

MIN_LENGTH: Final = 7
"""Minimum length of a key and of a secret. Upstream requires seven, although its message says six."""

_TOP: Final = ("globalWhiteRemoteAddresses", "accounts", "dataVersion")
_FIELDS: Final = (
    *("accessKey", "secretKey", "whiteRemoteAddress", "admin", "defaultTopicPerm", "defaultGroupPerm"),
    *("topicPerms", "groupPerms"),
)
_PERMISSIONS: Final = {
    "": Permission.DENY,
    "DENY": Permission.DENY,
    "PUB": Permission.PUB,
    "SUB": Permission.SUB,
    "PUB|SUB": Permission.PUB | Permission.SUB,
    "SUB|PUB": Permission.PUB | Permission.SUB,
}
_PERMISSIONS_IN_WORDS: Final = "DENY, PUB, SUB or PUB|SUB"
_BOOLEANS: Final = {"": False, "false": False, "true": True}

_Value = TypeVar("_Value")

Node = Any
"""A PyYAML node, or None if it is missing. The type is Any because PyYAML is imported late."""


class AccessFileError(ValueError):
    """The file with the accounts is invalid."""

    def __init__(self, line: int | None, reason: str) -> None:
        super().__init__(reason if line is None else f"line {line}: {reason}")


def read_accounts(text: str) -> Accounts:
    """Parse the accounts in a file's text. Raises AccessFileError with the line of the first mistake."""
    import yaml  # noqa: PLC0415 - slow, and few brokers need it

    try:
        root = yaml.compose(text, yaml.BaseLoader)
    except RecursionError:
        raise AccessFileError(None, "it is nested too deeply") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", None) or getattr(error, "reason", None))
        problem = re.sub("'.{2,}'", "…", problem)  # PyYAML's text may quote a secret
        raise AccessFileError(None if mark is None else mark.line + 1, f"it is not YAML: {problem}") from None
    if root is None:
        raise AccessFileError(None, f"it is empty; allowed: {', '.join(_TOP)}")
    return _accounts(root)


def _accounts(root: Node) -> Accounts:
    top = _mapping(root, _TOP, "the file")
    trusted = [_read(node, parse_addresses) for node in _list(top.get("globalWhiteRemoteAddresses"))]
    accounts: dict[str, Account] = {}
    for node in _list(top.get("accounts")):
        account = _account(node)
        if account.access_key in accounts:
            raise _mistake(node, f"the accessKey {account.access_key} is repeated; allowed: once")
        accounts[account.access_key] = account
    return Accounts(accounts.values(), trusted)


def _account(node: Node) -> Account:
    fields = _mapping(node, _FIELDS, "an account")
    topics = dict(_permissions(fields.get("topicPerms")))
    groups = dict(_permissions(fields.get("groupPerms")))
    for topic in [topic for topic in topics if topic.startswith(RETRY_PREFIX)]:
        groups.setdefault(topic.removeprefix(RETRY_PREFIX), topics.pop(topic))
    return Account(
        access_key=_key(node, fields, "accessKey"),
        secret=_key(node, fields, "secretKey"),
        trusts=_field(fields, "whiteRemoteAddress", parse_addresses),
        is_admin=_field(fields, "admin", _boolean),
        default_topic=_field(fields, "defaultTopicPerm", _permission),
        default_group=_field(fields, "defaultGroupPerm", _permission),
        topics=topics,
        groups=groups,
    )


def _key(account: Node, fields: Mapping[str, Node], name: str) -> str:
    node = fields.get(name)
    text = "" if node is None else _text(node)
    if len(text) < MIN_LENGTH:
        there = f"has {len(text)} characters" if node else "is missing"
        raise _mistake(node or account, f"{name} {there}; allowed: {MIN_LENGTH} or more")
    return text


def _permissions(node: Node) -> Iterator[tuple[str, Permission]]:
    """Read the entries ``name=permission``. The last entry for a name applies, as upstream."""
    for entry in _list(node):
        name, sign, text = _text(entry).partition("=")
        if not sign or not name.strip():
            raise _mistake(entry, f"{shorten(_text(entry))} is not a permission; allowed: name=permission")
        yield name.strip(), _read(entry, _permission, text)


def _field(fields: Mapping[str, Node], name: str, read: Callable[[str], _Value]) -> _Value:
    """Read a field. A missing field counts as empty."""
    node = fields.get(name)
    return read("") if node is None else _read(node, read)


def _read(node: Node, read: Callable[[str], _Value], text: str | None = None) -> _Value:
    try:
        return read(_text(node) if text is None else text)
    except ValueError as error:
        raise _mistake(node, str(error)) from None


def _text(node: Node) -> str:
    if node.id != "scalar":
        raise _mistake(node, f"this is a {node.id}; allowed: one value")
    text: str = node.value
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        raise _mistake(node, "an escape stands for half a character; allowed: whole characters")
    return "" if text in ("null", "~") and node.style is None else text


def _list(node: Node) -> list[Node]:
    if node is None or (node.id == "scalar" and not _text(node)):
        return []
    if node.id != "sequence":
        raise _mistake(node, f"this is a {node.id}; allowed: a list, whose lines begin with -")
    return list(node.value)


def _mapping(node: Node, allowed: tuple[str, ...], what: str) -> dict[str, Node]:
    if node.id != "mapping":
        raise _mistake(node, f"{what} is a {node.id}; allowed: {', '.join(allowed)}")
    found: dict[str, Node] = {}
    for key, value in node.value:
        name = _text(key)
        if name not in allowed:
            shown = shorten(name.partition(":")[0])  # the rest may be a secret
            raise _mistake(key, f"{what} has no {shown}; allowed: {', '.join(allowed)}")
        if name in found:
            raise _mistake(key, f"{name} is repeated; allowed: once")
        found[name] = value
    return found


def _mistake(node: Node, reason: str) -> AccessFileError:
    return AccessFileError(node.start_mark.line + 1, reason)


def _permission(text: str) -> Permission:
    found = _PERMISSIONS.get(text.strip())
    if found is None:
        raise ValueError(f"{shorten(text)} is not a permission; allowed: {_PERMISSIONS_IN_WORDS}")
    return found


def _boolean(text: str) -> bool:
    found = _BOOLEANS.get(text.lower())
    if found is None:
        raise ValueError(f"admin is {shorten(text)}; allowed: true or false")
    return found
