"""Reads users with their policies from a file, whose fields have upstream's names (UserInfo, AclInfo, 5.5.0).

RocketMQ has no such file. Its brokers begin with one user, from the setting initAuthenticationUser.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

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
from mocketmq.access.yaml_nodes import Node, list_of, mapping_of, mistake, text_of, value_of
from mocketmq.errors import AuthError, shorten

USERS: Final = "users"
"""The key by which a file of users is known from a ``plain_acl.yml``."""

_USER: Final = ("username", "password", "userType", "userStatus", "policies")
_POLICY: Final = ("resources", "actions", "sourceIps", "decision", "policyType")
_RESOURCES: Final = "such as Topic:orders, Topic:orders*, Group:*, Cluster:DefaultCluster or *"


def has_users(root: Node) -> bool:
    """Whether a parsed file is a file of users."""
    return root is not None and root.id == "mapping" and any(key.value == USERS for key, _ in root.value)


def users_in(root: Node) -> list[UserAccount]:
    """Read the users of a parsed file. Raises AccessFileError with the line of the first mistake."""
    users: dict[str, UserAccount] = {}
    for node in list_of(mapping_of(root, (USERS,), "the file")[USERS]):
        user = _user(node)
        if user.access_key in users:
            raise mistake(node, f"the username {user.access_key} is repeated; allowed: once")
        users[user.access_key] = user
    return list(users.values())


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
    """The policy as upstream shows it, with an entry for each resource."""
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
