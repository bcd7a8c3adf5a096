"""Reads the file with accounts: RocketMQ 4's ``plain_acl.yml``, or users of RocketMQ 5 with their policies.

RocketMQ ignores many mistakes in ``plain_acl.yml``, and denies access for entries that it cannot parse
(PlainAccessConfig.java, 4.9.8). mocketmq refuses such a file, and names the line of the first mistake. Errors
never quote a value that may be a secret. All values are text, so a secret ``012`` keeps its zero.

RocketMQ has no file of users. A new broker has one user, from the setting initAuthenticationUser. The fields
of a user have RocketMQ's names (UserInfo, AclInfo, 5.5.0).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from mocketmq.access.accounts import Account, Accounts, PlainAccount
from mocketmq.access.addresses import parse_addresses
from mocketmq.access.needs import Permission
from mocketmq.access.policies import (
    ACTIONS,
    CUSTOM,
    DECISIONS,
    NONE,
    POLICY_TYPES,
    Policies,
    Resource,
    parse_policies,
    parse_source,
)
from mocketmq.access.users import ENABLE, MAX_NAME, NORMAL, USER_STATUSES, USER_TYPES, UserAccount
from mocketmq.errors import AuthError, shorten
from mocketmq.message.names import RETRY_PREFIX

_Value = TypeVar("_Value")
_Account = TypeVar("_Account", bound=Account)

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
    """Parse the node's text, or ``text`` if given, with ``read``, which raises ValueError for a mistake."""
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
        raise mistake(node, "an escape encodes half a character; allowed: whole characters")
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
            raise mistake(key, f"{shown} is not a field of {what}; allowed: {', '.join(allowed)}")
        if name in found:
            raise mistake(key, f"{name} is repeated; allowed: once")
        found[name] = value
    return found


# plain_acl.yml

MIN_LENGTH: Final = 7
"""Minimum length of a key and of a secret. RocketMQ requires seven, although its message says six."""

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


def accounts_in(root: Node) -> Accounts:
    """Read the accounts of a parsed file. Raises AccessFileError."""
    if root is None:
        raise AccessFileError(None, f"it is empty; allowed: {', '.join(_TOP)}")
    top = mapping_of(root, _TOP, "the file")
    trusted = [value_of(node, parse_addresses) for node in list_of(top.get("globalWhiteRemoteAddresses"))]
    accounts = _each_once(list_of(top.get("accounts")), _account, "accessKey")
    return Accounts(accounts, trusted)


def _each_once(nodes: Iterable[Node], read: Callable[[Node], _Account], field: str) -> list[_Account]:
    """Read accounts, and check that no two of them have the same value in ``field``."""
    found: dict[str, _Account] = {}
    for node in nodes:
        account = read(node)
        if account.access_key in found:
            raise mistake(node, f"the {field} {account.access_key} is repeated; allowed: once")
        found[account.access_key] = account
    return list(found.values())


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
    """Read the entries ``name=permission``. The last entry for a name applies, as in RocketMQ."""
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


# Users of RocketMQ 5

USERS: Final = "users"
"""The top-level key that distinguishes a file of users from a ``plain_acl.yml``."""

_USER: Final = ("username", "password", "userType", "userStatus", "policies")
_POLICY: Final = ("resources", "actions", "sourceIps", "decision", "policyType")
_RESOURCES: Final = "such as Topic:orders, Topic:orders*, Group:*, Cluster:DefaultCluster or *"


def has_users(root: Node) -> bool:
    """Whether a parsed file is a file of users."""
    return root is not None and root.id == "mapping" and any(key.value == USERS for key, _ in root.value)


def users_in(root: Node) -> list[UserAccount]:
    """Read the users of a parsed file. Raises AccessFileError with the line of the first mistake."""
    return _each_once(list_of(mapping_of(root, (USERS,), "the file")[USERS]), _user, "username")


def _user(node: Node) -> UserAccount:
    fields = mapping_of(node, _USER, "a user")
    return UserAccount(
        access_key=_name(node, fields, "username"),
        secret=_name(node, fields, "password"),
        user_type=_choice(fields, "userType", USER_TYPES, NORMAL),
        status=_choice(fields, "userStatus", USER_STATUSES, ENABLE),
        policies=_policies(fields.get("policies")),
    )


def _name(user: Node, fields: Mapping[str, Node], name: str) -> str:
    node = fields.get(name)
    text = "" if node is None else text_of(node)
    if not text.strip() or len(text) > MAX_NAME:
        there = f"has {len(text)} characters" if text.strip() else "is missing"
        raise mistake(node or user, f"{name} {there}; allowed: 1 to {MAX_NAME} characters")
    return text


def _policies(node: Node) -> Policies:
    found = NONE
    for policy in list_of(node):
        try:
            found = found.updated(parse_policies([_policy(policy)]))
        except AuthError as error:
            raise mistake(policy, str(error)) from None
    return found


def _policy(node: Node) -> Mapping[str, Any]:
    """The policy as RocketMQ shows it, with an entry for each resource."""
    fields = mapping_of(node, _POLICY, "a policy")
    resources = [value_of(each, _resource) for each in list_of(fields.get("resources"))]
    actions = [value_of(each, _one_of("an action", ACTIONS)) for each in list_of(fields.get("actions"))]
    sources = [value_of(each, _source) for each in list_of(fields.get("sourceIps"))]
    for name, values in (("resources", resources), ("actions", actions)):
        if not values:
            raise mistake(fields.get(name) or node, f"{name} is missing; allowed: a list with one or more")
    if "decision" not in fields:
        raise mistake(node, f"decision is missing; allowed: {' or '.join(DECISIONS)}")
    decision = _choice(fields, "decision", DECISIONS, "")
    entries = [
        {"resource": each, "actions": actions, "sourceIps": sources, "decision": decision}
        for each in resources
    ]
    return {"policyType": _choice(fields, "policyType", POLICY_TYPES, CUSTOM), "entries": entries}


def _choice(fields: Mapping[str, Node], name: str, allowed: Collection[str], default: str) -> str:
    node = fields.get(name)
    return default if node is None else value_of(node, _one_of(name, allowed))


def _one_of(what: str, allowed: Collection[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        found = next((each for each in allowed if each.lower() == text.strip().lower()), None)
        if found is None:
            raise ValueError(f"{shorten(text)} is not {what}; allowed: {', '.join(allowed)}")
        return found

    return read


def _resource(text: str) -> str:
    if Resource.parse(text) is None:
        raise ValueError(f"{shorten(text)} is not a resource; allowed: {_RESOURCES}")
    return text


def _source(text: str) -> str:
    try:
        parse_source(text)
    except ValueError:
        raise ValueError(
            f"{shorten(text)} is not a source IP; allowed: an address, or a range such as 192.168.0.0/16"
        ) from None
    return text
