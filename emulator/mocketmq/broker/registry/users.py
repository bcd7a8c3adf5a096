"""Users of RocketMQ 5 that clients create and change, kept in the store.

Errors use the words of AuthenticationMetadataManagerImpl and AuthorizationMetadataManagerImpl, 5.5.0.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from mocketmq.access.access import Access
from mocketmq.access.accounts import Account
from mocketmq.access.policies import NONE, Policies, Resource, parse_policies
from mocketmq.access.users import ENABLE, MAX_NAME, NORMAL, UserAccount, UserAccounts
from mocketmq.errors import AuthError, RefusedError
from mocketmq.store.batch import Batch
from mocketmq.store.store import Store

MAX_USERS: Final = 1_000
"""Maximum number of users in the store."""

_SAVE = (
    "INSERT INTO users VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET password = excluded.password,"
    " type = excluded.type, status = excluded.status, policies = excluded.policies"
)
_DELETE = "DELETE FROM users WHERE name = ?"

Change = Callable[[UserAccount | None], UserAccount]
"""Makes a user from the former one, or raises an error. Called when the transaction is built."""


class Users:
    """The users. Reads come from memory. A change is visible once committed, and answered once durable."""

    def __init__(self, store: Store, access: Access | None) -> None:
        self._database = store.database
        self._writer = store.writer
        self._access = access

    async def load(self) -> None:
        """Read the users from the store, if there is access control."""
        if self._access is None:
            return
        for name, password, kind, status, policies in await self._database.rows("SELECT * FROM users"):
            entries = json.loads(policies)
            self._access.stored[name] = UserAccount(
                access_key=name,
                secret=password,
                user_type=kind,
                status=status,
                policies=parse_policies(entries) if entries else NONE,
            )

    def find(self, name: str) -> Account | None:
        """The user of this name, or the account in the settings. Raises RefusedError without ACL 2.0."""
        return self._all().get(name)

    def sorted_by_name(self) -> Iterator[UserAccount]:
        """All users in the order of their names. Raises RefusedError without ACL 2.0."""
        for account in sorted(self._all(), key=lambda each: each.access_key.encode()):
            if isinstance(account, UserAccount):
                yield account

    async def create(
        self, name: str, password: str | None, user_type: str | None, status: str | None
    ) -> None:
        """Create a user. Raises AuthError."""
        declared = self._all().by_key
        _check_blank(username=name, password=password)

        def change(old: UserAccount | None) -> UserAccount:
            if old is not None or name in declared:
                raise AuthError("The user is existed")
            if len(self._stored) >= MAX_USERS:
                raise AuthError(
                    f"the store already holds {MAX_USERS} users; allowed: at most {MAX_USERS}. Delete some"
                    " first"
                )
            return UserAccount(
                access_key=name, secret=password or "", user_type=user_type or NORMAL, status=status or ENABLE
            )

        await self._put(name, change)

    async def update(
        self, name: str, password: str | None, user_type: str | None, status: str | None
    ) -> None:
        """Change the given attributes of a user. Raises AuthError."""
        self._check_stored(name)
        _check_blank(username=name)

        def change(old: UserAccount | None) -> UserAccount:
            if old is None:
                raise AuthError("The user is not exist")
            return replace(
                old,
                secret=password if password and password.strip() else old.secret,
                user_type=user_type or old.user_type,
                status=status or old.status,
            )

        await self._put(name, change)

    async def delete(self, name: str) -> None:
        """Delete a user with its policies, if it exists. Raises AuthError."""
        self._check_stored(name)

        def apply() -> None:
            self._stored.pop(name, None)

        def work(batch: Batch) -> None:
            batch.execute(_DELETE, (name,))
            batch.on_commit(apply)

        await self._writer.commit(work, alone=True)

    async def add_policies(self, name: str, policies: Policies) -> None:
        """Add to a user's policies. An entry replaces one for the same resource. Raises AuthError."""
        self._check_stored(name)

        def change(old: UserAccount | None) -> UserAccount:
            if old is None:
                raise AuthError(f"The subject of User:{name} is not exist.")
            return replace(old, policies=old.policies.updated(policies))

        await self._put(name, change)

    async def delete_policies(self, name: str, policy_type: str, resource: Resource | None) -> None:
        """Delete the entry for exactly this resource, or all policies if it is None. Raises AuthError."""
        self._check_stored(name)

        def change(old: UserAccount | None) -> UserAccount:
            if old is None:
                raise AuthError("The subject is not exist.")
            if not old.policies.by_type:
                raise AuthError("The acl is not exist.")
            rest = NONE if resource is None else old.policies.without(policy_type, resource)
            return replace(old, policies=rest)

        await self._put(name, change)

    @property
    def _stored(self) -> dict[str, UserAccount]:
        return {} if self._access is None else self._access.stored

    def _all(self) -> UserAccounts:
        users = None if self._access is None else self._access.users
        if users is None:
            raise RefusedError(
                "users and policies need access control of RocketMQ 5; start the broker with --acl and a file"
                " of users"
            )
        return users

    def _check_stored(self, name: str) -> None:
        """Raise AuthError unless the user is in the store."""
        if name in self._all().by_key:
            raise AuthError(
                f"User:{name} is declared by the broker's setting acl or access_keys; change it there"
            )

    def _set(self, user: UserAccount) -> None:
        self._stored[user.access_key] = user

    async def _put(self, name: str, change: Change) -> None:
        _check_length("username", name)

        def work(batch: Batch) -> None:
            user = change(self._stored.get(name))
            _check_length("password", user.secret)
            batch.execute(
                _SAVE, (name, user.secret, user.user_type, user.status, json.dumps(user.policies.as_json()))
            )
            batch.on_commit(partial(self._set, user))

        await self._writer.commit(work, alone=True)


def _check_blank(**texts: str | None) -> None:
    """Raise AuthError for a text that is missing or blank."""
    for name, text in texts.items():
        if not (text or "").strip():
            raise AuthError(f"{name} can not be blank")


def _check_length(name: str, text: str) -> None:
    """Raise AuthError for a text that is too long. The error never quotes it."""
    if len(text) > MAX_NAME:
        raise AuthError(f"the {name} has {len(text)} characters; allowed: {MAX_NAME}")
