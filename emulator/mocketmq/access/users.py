"""Users of RocketMQ 5 (ACL 2.0): accounts that allow or refuse a request by their policies.

Sources, 5.5.0: User, DefaultAuthenticationHandler, UserAuthorizationHandler and AclAuthorizationHandler. The
errors use RocketMQ's words.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from mocketmq.access.accounts import Account, Accounts
from mocketmq.access.needs import Need
from mocketmq.access.policies import ALLOW, NONE, Policies
from mocketmq.errors import AccessError, AuthError

SUPER, NORMAL = "Super", "Normal"
USER_TYPES: Final = (SUPER, NORMAL)
ENABLE, DISABLE = "enable", "disable"
USER_STATUSES: Final = (ENABLE, DISABLE)

MAX_NAME: Final = 255
"""Maximum length of a user's name and of a password, in characters."""

_SHOWN: Final = 80  # maximum number of characters of an unknown name in an error


@dataclass(frozen=True, kw_only=True)
class UserAccount(Account):
    """A user. The access key is its name, and the secret its password. A super user may do everything."""

    user_type: str = NORMAL
    status: str = ENABLE
    policies: Policies = NONE

    @property
    def is_super(self) -> bool:
        return self.user_type == SUPER

    @property
    def subject(self) -> str:
        """The user as the subject of its policies."""
        return f"User:{self.access_key}"

    def check_enabled(self) -> None:
        if self.status == DISABLE:
            raise AuthError(f"{self.subject} is disabled.")

    def check(self, needs: Iterable[Need], host: str) -> None:
        """Raise AuthError unless the policies allow all ``needs`` to a client at the address ``host``."""
        if self.is_super:
            return
        for need in needs:
            if need.actions is None:
                continue
            entry = self.policies.decisive(need, host)
            if entry is None or entry.decision != ALLOW:
                why = "no matched policies." if entry is None else "the decision is deny."
                what = f"{need.kind}:{need.name}"
                raise AuthError(f"{self.subject} has no permission to access {what} from {host}, {why}")

    def check_admin(self, what: str) -> None:
        """Do nothing, because policies also decide on administrative requests."""


class UserAccounts(Accounts):
    """The users declared in a file, and the users in the store, which may change at any time."""

    def __init__(self, declared: Iterable[Account], stored: Mapping[str, UserAccount]) -> None:
        super().__init__(declared)
        self._stored = stored

    def get(self, access_key: str) -> Account | None:
        """The user of this name, if it exists. A declared user hides a stored one."""
        return self.by_key.get(access_key) or self._stored.get(access_key)

    def __iter__(self) -> Iterator[Account]:
        return iter({**self._stored, **self.by_key}.values())

    def find_account(self, access_key: str | None) -> Account:
        """The user of this name. Raises AuthError if it is unknown or disabled."""
        if not access_key:
            raise AuthError("username cannot be null.")
        account = self.get(access_key)
        if account is None:
            raise AuthError(f"User:{access_key[:_SHOWN]} is not found.")
        account.check_enabled()
        return account

    def signature_error(self, account: Account) -> AccessError:  # noqa: ARG002 - RocketMQ does not name it
        return AuthError("check signature failed.")

    def _with(self, accounts: Iterable[Account]) -> Accounts:
        return UserAccounts(accounts, self._stored)
