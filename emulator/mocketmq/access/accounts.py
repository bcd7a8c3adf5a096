"""Accounts: access keys and their permissions, checked as upstream does.

Source: PlainPermissionManager.java, 4.9.8.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Flag
from typing import Final, NamedTuple

from mocketmq.access.addresses import Addresses, parse_addresses
from mocketmq.errors import AccessError, UnknownAccessKeyError
from mocketmq.message.names import RETRY_PREFIX, is_trace_topic

_NOBODY: Final = parse_addresses("")
_SHOWN: Final = 80  # characters of an unknown key


class Permission(Flag):
    """What an account may do with a topic or group; ``DENY`` is nothing."""

    DENY = 0
    PUB = 1
    SUB = 2


class Need(NamedTuple):
    """A permission that a request requires, or several of which one is enough.

    A retry topic stands for its group, as upstream.
    """

    kind: str  # topic or group
    name: str
    permission: Permission


def topic_need(topic: str, permission: Permission) -> Need:
    """The permission to use a topic; that of a retry topic is its group's."""
    if topic.startswith(RETRY_PREFIX):
        return group_need(topic.removeprefix(RETRY_PREFIX))
    return Need("topic", topic, permission)


def group_need(group: str) -> Need:
    """The permission to consume in a group."""
    return Need("group", group, Permission.SUB)


@dataclass(frozen=True, kw_only=True)
class Account:
    """An access key; ``topics`` and ``groups`` have the permissions that differ from the defaults."""

    access_key: str
    secret: str = field(repr=False)
    trusts: Addresses = _NOBODY  # clients at these addresses need neither signature nor permissions
    is_admin: bool = False
    default_topic: Permission = Permission.DENY
    default_group: Permission = Permission.DENY
    topics: Mapping[str, Permission] = field(default_factory=dict)
    groups: Mapping[str, Permission] = field(default_factory=dict)
    security_token: str | None = field(default=None, repr=False)  # of a temporary key, over Aliyun's HTTP

    def check(self, needs: Iterable[Need]) -> None:
        """Raise AccessError unless the account has all these permissions.

        An administrator without listed permissions may do everything, as upstream. Everybody may send to
        trace topics.
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
    """All accounts by key, and the addresses of clients that need none."""

    def __init__(self, accounts: Iterable[Account], trusted: Sequence[Addresses] = ()) -> None:
        self.by_key: Mapping[str, Account] = {account.access_key: account for account in accounts}
        self._trusted = trusted

    def trusts(self, host: str) -> bool:
        """Whether a client at this address needs no key."""
        return any(trusts(host) for trusts in self._trusted)

    def find(self, access_key: str | None) -> Account:
        """The account. Raises UnknownAccessKeyError."""
        if access_key is None:
            raise UnknownAccessKeyError("No accessKey is configured")
        account = self.by_key.get(access_key)
        if account is None:
            raise UnknownAccessKeyError(f"No acl config for {access_key[:_SHOWN]}")
        return account

    def with_tokens(self, tokens: Mapping[str, str]) -> "Accounts":
        """These accounts; those with such a key have the security token."""
        found = (replace(each, security_token=tokens.get(each.access_key)) for each in self.by_key.values())
        return Accounts(found, self._trusted)

    def with_more(self, accounts: Iterable[Account]) -> "Accounts":
        """These accounts and others, with other keys."""
        return Accounts([*self.by_key.values(), *accounts], self._trusted)
