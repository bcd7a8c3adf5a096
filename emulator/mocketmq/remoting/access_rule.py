"""Access rules, which declare the permissions that a request needs, and the guard that checks them.

Each request declares one rule, both for accounts of ``plain_acl.yml`` and for users with policies.

For accounts, the rules are those of 4.9.8 (PlainAccessValidator.java). Requests that 4.9.8 does not have, or
does not check, follow 5.3.3 as closely as the permissions of accounts allow. Only an administrator may change
topics, groups and settings. Every account may read them.

For users, the rules are those of 5.5.0 (DefaultAuthorizationContextBuilder.java, ``@RocketMQAction``). As
in 5.5.0, a request without a header class, such as a change of settings, needs only an authenticated user.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from mocketmq.access.access import Access
from mocketmq.access.needs import Action, Kind, Need, to_administer, to_consume, to_look_up, to_produce
from mocketmq.errors import AccessError, AuthError
from mocketmq.hosts import peer_host
from mocketmq.message.names import CLUSTER
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.wire.codes import RemotingError, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.signature import ACCESS_KEY, is_signed

_EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "
"""Name of RocketMQ's exception, which begins the remark of every refusal, except refusals to users."""

Needs = Callable[[Command], Iterator[Need]]


class AccessRule(NamedTuple):
    """What a request requires of its sender.

    ``needs`` returns what the account must be allowed to do. ``is_open`` requests need no access key. For
    ``is_admin`` requests, an account of ``plain_acl.yml`` must be an administrator.
    """

    needs: Needs
    is_admin: bool = False
    is_open: bool = False


def _nothing(_command: Command) -> Iterator[Need]:
    return iter(())


OPEN: Final = AccessRule(_nothing, is_open=True)
"""The rule for requests that need no access key, as on RocketMQ's name server."""
KEY: Final = AccessRule(_nothing)
"""The rule of requests that need an access key, but no permissions."""
ADMIN: Final = AccessRule(_nothing, is_admin=True)
_KINDS: Final[dict[str, Kind]] = {"topic": "Topic", "group": "Group", "groups": "Group"}


def reads(actions: Action = Action.GET, **fields: str) -> AccessRule:
    """Make a rule that requires an access key and, of a user, permission for one of the actions.

    ``fields`` maps kinds of resources to the ext fields that name them: a ``topic``, a ``group``, or
    ``groups`` separated by commas. The user needs the permission for each named resource or, without fields,
    for the cluster. The resources are checked in the given order.
    """
    return AccessRule(_administers(actions, fields))


def administers(actions: Action, **fields: str) -> AccessRule:
    """Make a rule that requires an administrator, or a user with permission as for :func:`reads`."""
    return AccessRule(_administers(actions, fields), is_admin=True)


def _administers(actions: Action, fields: Mapping[str, str]) -> Needs:
    def needs(command: Command) -> Iterator[Need]:
        if not fields:
            yield to_administer("Cluster", CLUSTER, actions)
        for kind, field in fields.items():
            text = command.ext.get(field, "")
            for name in text.split(",") if kind == "groups" else (text,):
                if name:
                    yield to_administer(_KINDS[kind], name, actions)

    return needs


def looks_for(topic: str) -> AccessRule:
    """Make a rule that requires no access key.

    A sender counts as authorized if it may publish to or consume the topic in this ext field.
    """

    def needs(command: Command) -> Iterator[Need]:
        if name := command.ext.get(topic):
            yield from to_look_up(name, Action.PUB | Action.SUB | Action.GET)

    return AccessRule(needs, is_open=True)


def publishes(topic: str) -> AccessRule:
    """Make a rule that requires permission to publish to the topic in this ext field.

    For a retry topic, it requires permission to consume as the topic's group.
    """

    def needs(command: Command) -> Iterator[Need]:
        if name := command.ext.get(topic):
            yield from to_produce(name)

    return AccessRule(needs)


def consumes(
    topic: str | None = None,
    group: str | None = None,
    *,
    actions: Action = Action.SUB,
    is_topic_first: bool = False,
) -> AccessRule:
    """Make a rule that requires permission to consume the topic as the group, both named by ext fields.

    A user needs one of the actions. The group is checked before the topic. ``is_topic_first`` reverses this
    order for requests where RocketMQ does.
    """

    def needs(command: Command) -> Iterator[Need]:
        ext = command.ext
        found = to_consume(ext.get(topic or "") or None, ext.get(group or "") or None, actions)
        return reversed([*found]) if is_topic_first else found

    return AccessRule(needs)


class Guard:
    """Checks every request before its handler runs. Created only if access control is on."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def check(self, rule: AccessRule, channel: RemotingChannel, command: Command) -> bool:
        """Return True if the sender is authorized, or False if it is not and the request is open.

        Raises RemotingError or AuthError, with RocketMQ's code and text, if the request must be refused.
        """
        try:
            self._check(rule, peer_host(channel.remote), command)
        except AccessError as error:
            if rule.is_open:
                return False
            if isinstance(error, AuthError):
                raise
            raise RemotingError(ResponseCode.SYSTEM_ERROR, f"{_EXCEPTION}{error}") from None
        return True

    def _check(self, rule: AccessRule, host: str, command: Command) -> None:
        accounts = self._access.accounts
        if accounts.trusts(host):
            return
        account = accounts.find_account(command.ext.get(ACCESS_KEY))
        if account.trusts(host):
            return
        if not is_signed(command, account.secret):
            raise accounts.signature_error(account)
        if rule.is_admin:
            account.check_admin(f"request code={command.code}")
        account.check(rule.needs(command), host)
