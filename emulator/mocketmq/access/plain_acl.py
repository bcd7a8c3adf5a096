"""Reads accounts from RocketMQ's configuration file ``plain_acl.yml`` (PlainAccessConfig.java, 4.9.8).

Upstream ignores many mistakes in the file, and denies access for entries that it cannot parse. mocketmq
refuses such a file, and names the line of the first mistake.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from mocketmq.access.accounts import Accounts, PlainAccount
from mocketmq.access.addresses import parse_addresses
from mocketmq.access.needs import Permission
from mocketmq.access.yaml_nodes import (
    AccessFileError,
    Node,
    list_of,
    mapping_of,
    mistake,
    parse_yaml,
    text_of,
    value_of,
)
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


def read_accounts(text: str) -> Accounts:
    """Parse the accounts in a file's text. Raises AccessFileError with the line of the first mistake."""
    return accounts_in(parse_yaml(text))


def accounts_in(root: Node) -> Accounts:
    """Read the accounts of a parsed file. Raises AccessFileError."""
    if root is None:
        raise AccessFileError(None, f"it is empty; allowed: {', '.join(_TOP)}")
    top = mapping_of(root, _TOP, "the file")
    trusted = [value_of(node, parse_addresses) for node in list_of(top.get("globalWhiteRemoteAddresses"))]
    accounts: dict[str, PlainAccount] = {}
    for node in list_of(top.get("accounts")):
        account = _account(node)
        if account.access_key in accounts:
            raise mistake(node, f"the accessKey {account.access_key} is repeated; allowed: once")
        accounts[account.access_key] = account
    return Accounts(accounts.values(), trusted)


def _account(node: Node) -> PlainAccount:
    fields = mapping_of(node, _FIELDS, "an account")
    topics = dict(_permissions(fields.get("topicPerms")))
    groups = dict(_permissions(fields.get("groupPerms")))
    for topic in [topic for topic in topics if topic.startswith(RETRY_PREFIX)]:
        groups.setdefault(topic.removeprefix(RETRY_PREFIX), topics.pop(topic))
    return PlainAccount(
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
    text = "" if node is None else text_of(node)
    if len(text) < MIN_LENGTH:
        there = f"has {len(text)} characters" if node else "is missing"
        raise mistake(node or account, f"{name} {there}; allowed: {MIN_LENGTH} or more")
    return text


def _permissions(node: Node) -> Iterator[tuple[str, Permission]]:
    """Read the entries ``name=permission``. The last entry for a name applies, as upstream."""
    for entry in list_of(node):
        name, sign, text = text_of(entry).partition("=")
        if not sign or not name.strip():
            raise mistake(entry, f"{shorten(text_of(entry))} is not a permission; allowed: name=permission")
        yield name.strip(), value_of(entry, _permission, text)


def _field(fields: Mapping[str, Node], name: str, read: Callable[[str], _Value]) -> _Value:
    """Read a field. A missing field counts as empty."""
    node = fields.get(name)
    return read("") if node is None else value_of(node, read)


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
