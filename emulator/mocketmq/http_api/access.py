"""Access control of the JSON API: who sent a request, and which permissions its route requires.

A request carries the token, which allows everything, or Basic credentials (RFC 7617): a user's name and
password, or the access key and secret of an account in ``plain_acl.yml``. If there are accounts but no token,
requests from the broker's own machine need no credentials, so that local tests, the console and commands just
work. In a container, no request needs credentials, because there an address does not tell which machine a
request comes from.
"""

import base64
import hmac
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from mocketmq.access.access import Access
from mocketmq.access.accounts import Account
from mocketmq.access.needs import Action, Kind, Need, to_administer, to_consume, to_produce
from mocketmq.errors import AccessError, UnauthorizedError
from mocketmq.hosts import is_in_container, is_loopback
from mocketmq.http_api import web
from mocketmq.http_api.fields import Input
from mocketmq.message.names import CLUSTER

_BASIC: Final = "Basic, with a user's name and password"
_READS: Final = Action.GET | Action.LIST

Find = Callable[[str], str | None]
"""Returns the text of a field in a request's path, query or body; None if the request omits it."""
Needs = Callable[[Find], Iterable[Need]]


class ApiGuard:
    """Identifies the sender of a request, if the broker has a ``token`` or ``access`` control."""

    def __init__(self, token: str | None, access: Access | None) -> None:
        self.is_on = token is not None or access is not None
        self._token = f"Bearer {token}".encode() if token else None
        self._access = access

    def account_of(self, request: web.BaseRequest) -> Account | None:
        """The account that sent the request; None if the sender may do everything.

        Raises UnauthorizedError.
        """
        authorization, host = request.headers.get("Authorization", ""), request.remote or ""
        scheme, space, given = authorization.partition(" ")
        scheme = scheme.title()  # the scheme is case-insensitive (RFC 9110, 11.1)
        if self._access is not None and scheme == "Basic":
            return _account(self._access, given, host, self._challenge)
        if self._token is None:
            if self._access is None or is_in_container() or is_loopback(host):
                return None
            if self._access.accounts.trusts(host):
                return None
            raise UnauthorizedError(f"credentials are required: Authorization: {_BASIC}", self._challenge)
        text = f"{scheme}{space}{given}".encode(errors="surrogateescape")
        if hmac.compare_digest(text, self._token):
            return None
        if authorization:
            raise UnauthorizedError("the token is wrong")
        more = f", or {_BASIC}" if self._access is not None else ""
        raise UnauthorizedError(f"a token is required: Authorization: Bearer <token>{more}")

    @property
    def _challenge(self) -> str:
        """The authentication scheme that a response with status 401 asks for.

        A browser asks its user for a name and password on its own, but not for a token.
        """
        return "Bearer" if self._token else 'Basic realm="mocketmq", charset="UTF-8"'


def _account(access: Access, given: str, host: str, challenge: str) -> Account | None:
    """The account with this name and password; None if it needs no permissions at this address."""
    try:
        name, colon, password = base64.b64decode(given, validate=True).decode().partition(":")
    except ValueError:
        colon = ""
    if not colon:
        raise UnauthorizedError("Basic credentials are not name:password in UTF-8 and base64", challenge)
    accounts = access.accounts
    try:
        account = accounts.find_account(name or None)
        if account.trusts(host):
            return None
        if not hmac.compare_digest(password.encode(), account.secret.encode()):
            raise accounts.signature_error(account)
    except AccessError as error:
        raise UnauthorizedError(str(error), challenge) from None
    return account


def check_needs(account: Account, needs: Needs, inputs: Sequence[Input], request: web.BaseRequest) -> None:
    """Raise AccessError unless the account has the permissions that the request with these inputs requires.

    Of the accounts in ``plain_acl.yml``, only administrators may act on the cluster, or change topics and
    groups.
    """
    wanted = list(needs(partial(find_field, inputs)))
    if any(map(_is_administrative, wanted)):
        account.check_admin(f"{request.method} {request.rel_url.path}")
    account.check(wanted, request.remote or "")


def _is_administrative(need: Need) -> bool:
    return need.kind == "Cluster" or not (need.permission or (need.actions and need.actions in _READS))


def find_field(inputs: Sequence[Input], name: str) -> str | None:
    """The text of a field in any of the inputs; None if the request omits it."""
    return next((value for one in inputs if isinstance(value := getattr(one, name, None), str)), None)


def any_user(_find: Find) -> Iterator[Need]:
    """No permission, so that any user may send the request."""
    return iter(())


def _cluster(action: Action) -> Needs:
    return lambda _: [to_administer("Cluster", CLUSTER, action)]


def every(kind: Kind) -> Needs:
    """Permission to list all topics, or all groups. Only a policy for all of them grants it."""
    return lambda _: [to_administer(kind, "*", Action.LIST)]


def on_topic(action: Action) -> Needs:
    """Permission for the action on the request's topic, or on the cluster if the request names no topic."""
    return lambda find: [_of("Topic", find("topic"), action)]


def on_group(action: Action) -> Needs:
    """Permission for the action on the request's consumer group, or on the cluster if it names none."""
    return lambda find: [_of("Group", find("group"), action)]


def _of(kind: Kind, name: str | None, action: Action) -> Need:
    return to_administer("Cluster", CLUSTER, action) if name is None else to_administer(kind, name, action)


def sends(find: Find) -> Iterable[Need]:
    """Permission to publish to the request's topic."""
    return to_produce(find("topic") or "")


def sends_and_moves(find: Find) -> Iterator[Need]:
    """Permission to publish to the topic, and to move the clock if the request moves it."""
    yield from sends(find)
    if find("advance") is not None:
        yield from CLUSTER_UPDATE(find)


def consumes(find: Find) -> Iterable[Need]:
    """Permission to consume as the consumer group, from the topic if the request names one."""
    return to_consume(find("topic"), find("group"))


def reads_messages(find: Find) -> Iterable[Need]:
    """Permission to see messages of the request's topic, or to read the cluster if it names no topic."""
    topic = find("topic")
    return to_consume(topic, None, Action.SUB | Action.GET) if topic else CLUSTER_GET(find)


def waits(find: Find) -> Iterator[Need]:
    """Permission to see messages of the topic and the group, and to move the clock if the request does so."""
    yield from to_consume(find("topic"), find("group"), Action.SUB | Action.GET)
    if find("advance") is not None:
        yield from CLUSTER_UPDATE(find)


def resets_group(find: Find) -> Iterator[Need]:
    """Permission to change the consumer group and the topic."""
    yield _of("Group", find("group"), Action.UPDATE)
    yield _of("Topic", find("topic"), Action.UPDATE)


CLUSTER_GET: Final = _cluster(Action.GET)
CLUSTER_UPDATE: Final = _cluster(Action.UPDATE)
