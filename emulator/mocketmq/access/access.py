"""Loads the accounts from the settings and from the ACL file, and reloads the file when it changes.

A file of RocketMQ 5's users turns on ACL 2.0, which adds the users in the store to those in the file. The
permissions of an account (``accounts``) or the policies of a user (``users``) determine what a client may do.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from mocketmq.access.account_file import AccessFileError, accounts_in, has_users, parse_yaml, users_in
from mocketmq.access.accounts import Account, Accounts, PlainAccount
from mocketmq.access.users import UserAccount, UserAccounts
from mocketmq.errors import SettingError
from mocketmq.settings import Settings

log = logging.getLogger(__name__)

_Version = tuple[int, int, int]


class Access:
    """The accounts in the file at ``path``, if given, and ``more`` accounts. Raises SettingError.

    ``tokens`` maps access keys to security tokens. ``stored`` contains the users in the store, which the
    broker's registry reads and changes.
    """

    def __init__(
        self, path: Path | None, more: Iterable[Account] = (), tokens: Mapping[str, str] | None = None
    ) -> None:
        self.stored: dict[str, UserAccount] = {}
        self._path = path
        self._more = list(more)
        self._tokens = tokens or {}
        self._version = self._version_now()
        try:
            self._accounts = self._read()
        except (AccessFileError, OSError) as error:
            raise SettingError(
                "acl", str(path), f"a file of accounts such as plain_acl.yml, or of users ({error})"
            ) from None

    @property
    def accounts(self) -> Accounts:
        """The current accounts; the previous ones while the file is invalid. Checking the file takes 2 µs."""
        version = self._version_now()
        if version != self._version:
            self._version = version
            try:
                self._accounts = self._read()
                log.info("reloaded %s: %d accounts", self._path, len(self._accounts.by_key))
            except (AccessFileError, OSError) as error:
                log.error("cannot reload %s, keeping the previous accounts: %s", self._path, error)
        return self._accounts

    @property
    def users(self) -> UserAccounts | None:
        """The users, or None if there is no file of users."""
        accounts = self.accounts
        return accounts if isinstance(accounts, UserAccounts) else None

    def _read(self) -> Accounts:
        return self._read_all().with_tokens(self._tokens)

    def _read_all(self) -> Accounts:
        if self._path is None:
            return Accounts(self._more)
        try:
            root = parse_yaml(self._path.read_text("utf-8"))
        except UnicodeDecodeError:
            raise AccessFileError(None, "it is not UTF-8") from None
        accounts = UserAccounts(users_in(root), self.stored) if has_users(root) else accounts_in(root)
        for account in self._more:
            if account.access_key in accounts.by_key:
                raise AccessFileError(
                    None,
                    f"{account.access_key} is also in the setting access_keys; allowed: only one of the two",
                )
        return accounts.with_more(self._more)

    def _version_now(self) -> _Version | None:
        if self._path is None:
            return None
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def access_of(settings: Settings) -> Access | None:
    """Make the accounts from the settings; None if there is no access control. Raises SettingError.

    The keys in ``access_keys`` have all permissions.
    """
    keys, tokens = settings.access_keys or {}, settings.security_tokens or {}
    access = None
    if settings.acl is not None or keys:
        more = [PlainAccount(access_key=key, secret=secret, is_admin=True) for key, secret in keys.items()]
        access = Access(None if settings.acl is None else Path(settings.acl), more, tokens)
    for key in tokens.keys() - (access.accounts.by_key.keys() if access else ()):
        raise SettingError(
            "security_tokens", key, "keys in access_keys, or access keys in the file that acl names"
        )
    return access
