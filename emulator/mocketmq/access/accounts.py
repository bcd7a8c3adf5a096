"""Accounts of ``plain_acl.yml``, and the base of all accounts: checks what each may do, as in RocketMQ.

Source: PlainPermissionManager.java, 4.9.8. Users with policies, of RocketMQ 5, are in ``users``.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mocketmq.access.addresses import Addresses, parse_addresses
from mocketmq.access.needs import Need, Permission
from mocketmq.errors import AccessError, SignatureError, UnknownAccessKeyError
from mocketmq.message.names import is_trace_topic

_NOBODY: Final = parse_addresses("")
_SHOWN: Final = 80  # maximum number of characters of an unknown key in an error


@dataclass(frozen=True, kw_only=True)
class Account(ABC):
    """An access key with its secret. Checks what its owner may do, in the same way for every protocol."""

    access_key: str
    secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)  # belongs to a temporary key of Aliyun
    trusts: Addresses = _NOBODY  # clients at these addresses need neither signature nor permissions

    @property
    @abstractmethod
    def is_super(self) -> bool:
        """Whether the account may create and change super users."""

    @abstractmethod
    def check_enabled(self) -> None:
        """Raise AccessError if the account must not be used."""

    @abstractmethod
    def check(self, needs: Iterable[Need], host: str) -> None:
        """Raise AccessError unless the account may do all that ``needs`` lists from the address ``host``."""

    @abstractmethod
    def check_admin(self, what: str) -> None:
        """Raise AccessError unless the account may make administrative requests."""


@dataclass(frozen=True, kw_only=True)
class PlainAccount(Account):
    """An account of ``plain_acl.yml``. The permissions in ``topics`` and ``groups`` override the defaults."""

    is_admin: bool = False
    default_topic: Permission = Permission.DENY
    default_group: Permission = Permission.DENY
    topics: Mapping[str, Permission] = field(default_factory=dict)
    groups: Mapping[str, Permission] = field(default_factory=dict)

    @property
    def is_super(self) -> bool:
        return self.is_admin

    def check_enabled(self) -> None:
        """Do nothing, because an account of the file is always enabled."""

    def check(self, needs: Iterable[Need], host: str) -> None:  # noqa: ARG002 - white lists are in ``trusts``
        """Raise AccessError unless the account has all these permissions.

        As in RocketMQ, an administrator without listed permissions has all permissions. Every account may
        send to trace topics.
        """
        if self.is_admin and not self.topics and not self.groups:
            return
        for need in needs:
            kind, name, wanted, _ = need
            if not wanted:
                continue
            owned, default = (
                (self.topics, self.default_topic) if kind == "Topic" else (self.groups, self.default_group)
            )
            is_trace = kind == "Topic" and Permission.PUB in wanted and is_trace_topic(name)
            if not is_trace and not wanted & owned.get(name, default):
                raise AccessError(f"No default permission for {kind.lower()}:{name}")

    def check_admin(self, what: str) -> None:
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

    def get(self, access_key: str) -> Account | None:
        return self.by_key.get(access_key)

    def find_account(self, access_key: str | None) -> Account:
        """The account with this access key. Raises AccessError if it is unknown or disabled."""
        if access_key is None:
            raise UnknownAccessKeyError("No accessKey is configured")
        account = self.get(access_key)
        if account is None:
            raise UnknownAccessKeyError(f"No acl config for {access_key[:_SHOWN]}")
        return account

    def signature_error(self, account: Account) -> AccessError:
        """The error for a request that is not signed with the account's secret."""
        return SignatureError(f"Check signature failed for accessKey={account.access_key}")

    def with_tokens(self, tokens: Mapping[str, str]) -> "Accounts":
        """Return these accounts with security tokens. ``tokens`` maps access keys to tokens."""
        return self._with(
            replace(each, security_token=tokens.get(each.access_key)) for each in self.by_key.values()
        )

    def with_more(self, accounts: Iterable[Account]) -> "Accounts":
        """Return these accounts and further ones, whose access keys must be different."""
        return self._with([*self.by_key.values(), *accounts])

    def _with(self, accounts: Iterable[Account]) -> "Accounts":
        return Accounts(accounts, self._trusted)
