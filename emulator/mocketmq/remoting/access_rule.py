"""Access rules: the permissions that a request needs, and the guard that checks them.

Each request is declared with a rule. The rules are those of 4.9.8 (PlainAccessValidator.java). Requests that
4.9.8 lacks or forgot follow 5.3.3 (DefaultAuthorizationContextBuilder.java, ``@RocketMQAction``) as far as
the accounts allow. Only an administrator may change topics, groups and settings. Any access key may read
them.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from mocketmq.access.access import Access
from mocketmq.access.accounts import Need, to_consume, to_look_up, to_produce
from mocketmq.errors import AccessError, SignatureError
from mocketmq.host_port import peer_host
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.wire.codes import RemotingError, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.signature import ACCESS_KEY, is_signed

_EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "
"""Prefix of the remark of every refusal: the name of upstream's exception."""

Needs = Callable[[Command], Iterator[Need]]


class AccessRule(NamedTuple):
    """``needs`` returns the permissions that the access key must have. ``is_open`` requests need no key."""

    needs: Needs
    is_admin: bool = False
    is_open: bool = False


def _nothing(_command: Command) -> Iterator[Need]:
    return iter(())


OPEN: Final = AccessRule(_nothing, is_open=True)
"""The rule of requests that need no access key, as on upstream's name server."""
KEY: Final = AccessRule(_nothing)
"""The rule of requests that need an access key, but no permissions."""
ADMIN: Final = AccessRule(_nothing, is_admin=True)


def looks_for(topic: str) -> AccessRule:
    """Needs no access key. A sender that may publish to or consume this topic counts as authorized."""

    def needs(command: Command) -> Iterator[Need]:
        if name := command.ext.get(topic):
            yield from to_look_up(name)

    return AccessRule(needs, is_open=True)


def publishes(topic: str) -> AccessRule:
    """Needs permission to publish to the topic in this ext field, or to consume as a retry topic's group."""

    def needs(command: Command) -> Iterator[Need]:
        if name := command.ext.get(topic):
            yield from to_produce(name)

    return AccessRule(needs)


def consumes(topic: str | None = None, group: str | None = None) -> AccessRule:
    """Needs permission to consume as the group, and from the topic, in these ext fields."""

    def needs(command: Command) -> Iterator[Need]:
        ext = command.ext
        return to_consume(ext.get(topic or "") or None, ext.get(group or "") or None)

    return AccessRule(needs)


class Guard:
    """Checks every request before its handler runs. Created only if access control is on."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def check(self, rule: AccessRule, channel: RemotingChannel, command: Command) -> bool:
        """Whether the sender is authorized. False only for open requests, which are served nevertheless.

        Raises RemotingError, with upstream's code and words, if the request must be refused.
        """
        try:
            self._check(rule, peer_host(channel.remote), command)
        except AccessError as error:
            if rule.is_open:
                return False
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
            raise SignatureError(f"Check signature failed for accessKey={account.access_key}")
        if rule.is_admin:
            account.check_admin(f"request code={command.code}")
        account.check(rule.needs(command))
