"""Accounts, that is, access keys and their permissions, which are checked as upstream does.

Source: PlainPermissionManager.java, 4.9.8.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Flag
from typing import Final, NamedTuple

from mocketmq.access.addresses import Addresses, parse_addresses
from mocketmq.errors import AccessError, UnknownAccessKeyError
from mocketmq.message.names import RETRY_PREFIX, is_trace_topic, retry_topic

_NOBODY: Final = parse_addresses("")
_SHOWN: Final = 80  # maximum number of characters of an unknown key in an error


class Permission(Flag):
    """Permissions for a topic or group; ``DENY`` is no permission."""

    DENY = 0
    PUB = 1
    SUB = 2


class Need(NamedTuple):
    """A permission that a request requires, or several of which one is enough.

    A retry topic requires permission for its group, as upstream.
    """

    kind: str  # topic or group
    name: str
    permission: Permission


def to_produce(topic: str) -> Iterator[Need]:
    """The permission to send to the topic."""
    yield _topic_need(topic, Permission.PUB)


def to_consume(topic: str | None, group: str | None) -> Iterator[Need]:
    """The permissions to consume the topic as the group. Topic or group may be None."""
    if group is not None:
        yield _group_need(group)
    if topic is not None and not (group and topic == retry_topic(group)):
        yield _topic_need(topic, Permission.SUB)


def to_look_up(topic: str) -> Iterator[Need]:
    """The permission to send to the topic, or to consume it. One of them is enough."""
    yield _topic_need(topic, Permission.PUB | Permission.SUB)


def _topic_need(topic: str, permission: Permission) -> Need:
    """The permission for a topic. For a retry topic it is the permission for the group."""
    if topic.startswith(RETRY_PREFIX):
        return _group_need(topic.removeprefix(RETRY_PREFIX))
    return Need("topic", topic, permission)


def _group_need(group: str) -> Need:
    return Need("group", group, Permission.SUB)


@dataclass(frozen=True, kw_only=True)
class Account:
    """An access key. The permissions in ``topics`` and ``groups`` override the defaults."""

    access_key: str
    secret: str = field(repr=False)
    trusts: Addresses = _NOBODY  # clients at these addresses need neither signature nor permissions
    is_admin: bool = False
    default_topic: Permission = Permission.DENY
    default_group: Permission = Permission.DENY
    topics: Mapping[str, Permission] = field(default_factory=dict)
    groups: Mapping[str, Permission] = field(default_factory=dict)
    security_token: str | None = field(default=None, repr=False)  # of a temporary key of Aliyun

    def check(self, needs: Iterable[Need]) -> None:
        """Raise AccessError unless the account has all these permissions.

        An administrator without listed permissions has all permissions, as upstream. Every account may send
        to trace topics.
        """
        if self.is_admin and not self.topics and not self.groups:
            return
        for need in needs:
            kind, name, wanted = need
            owned, default = (
                (self.topics, self.default_topic) if kind == "topic" else (self.groups, self.default_group)
            )
            is_trace = kind == "topic" and Permission.PUB in wanted and is_trace_topic(name)
            if not is_trace and not wanted & owned.get(name, default):
                raise AccessError(f"No default permission for {kind}:{name}")

    def check_admin(self, what: str) -> None:
        """Raise AccessError unless the account is an administrator's."""
        if not self.is_admin:
            raise AccessError(f"Need admin permission for {what}, but accessKey={self.access_key} is not")


class Accounts:
    """All accounts by access key, and the addresses of clients that need no account."""

    def __init__(self, accounts: Iterable[Account], trusted: Sequence[Addresses] = ()) -> None:
        self.by_key: Mapping[str, Account] = {account.access_key: account for account in accounts}
        self._trusted = trusted

    def trusts(self, host: str) -> bool:
        """Whether clients at this address need no access key."""
        return any(trusts(host) for trusts in self._trusted)

    def find_account(self, access_key: str | None) -> Account:
        """The account with this access key. Raises UnknownAccessKeyError."""
        if access_key is None:
            raise UnknownAccessKeyError("No accessKey is configured")
        account = self.by_key.get(access_key)
        if account is None:
            raise UnknownAccessKeyError(f"No acl config for {access_key[:_SHOWN]}")
        return account

    def with_tokens(self, tokens: Mapping[str, str]) -> "Accounts":
        """Return these accounts with the security tokens, which are given by access key."""
        found = (replace(each, security_token=tokens.get(each.access_key)) for each in self.by_key.values())
        return Accounts(found, self._trusted)

    def with_more(self, accounts: Iterable[Account]) -> "Accounts":
        """Return these and further accounts, which must have other access keys."""
        return Accounts([*self.by_key.values(), *accounts], self._trusted)
