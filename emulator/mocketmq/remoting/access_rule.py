"""Access rules: the permissions that a request needs, and the guard that checks them.

Each request is declared with a rule. The rules are those of 4.9.8 (PlainAccessValidator.java). Requests that
are newer, or were forgotten there, follow 5.3.3 (DefaultAuthorizationContextBuilder.java,
``@RocketMQAction``) as far as these accounts can: changing topics, groups or settings takes an administrator,
reading them takes any key.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from mocketmq.access.access import Access
from mocketmq.access.accounts import Need, to_consume, to_look_up, to_produce
from mocketmq.doors import peer_host
from mocketmq.errors import AccessError, SignatureError
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.wire.codes import RemotingError, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.signature import ACCESS_KEY, is_signed

_EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "
"""The name of upstream's exception, with which refusals begin."""

Needs = Callable[[Command], Iterator[Need]]


class AccessRule(NamedTuple):
    """``needs`` are the permissions that the key must have; an ``is_open`` request takes not even a key."""

    needs: Needs
    is_admin: bool = False
    is_open: bool = False


def _nothing(_command: Command) -> Iterator[Need]:
    return iter(())


OPEN: Final = AccessRule(_nothing, is_open=True)
"""Anybody, as at upstream's name server."""
KEY: Final = AccessRule(_nothing)
"""Anybody with a key."""
ADMIN: Final = AccessRule(_nothing, is_admin=True)


def looks_for(topic: str) -> AccessRule:
    """Anybody may; permission to publish to this topic, or to consume it, makes the sender authorized."""

    def needs(command: Command) -> Iterator[Need]:
        if name := command.ext.get(topic):
            yield from to_look_up(name)

    return AccessRule(needs, is_open=True)


def publishes(topic: str) -> AccessRule:
    """Permission to publish to the topic in this ext field; for a retry topic, to consume as its group."""

    def needs(command: Command) -> Iterator[Need]:
        if name := command.ext.get(topic):
            yield from to_produce(name)

    return AccessRule(needs)


def consumes(topic: str | None = None, group: str | None = None) -> AccessRule:
    """Permission to consume the topic as the group in these ext fields."""

    def needs(command: Command) -> Iterator[Need]:
        ext = command.ext
        return to_consume(ext.get(topic or "") or None, ext.get(group or "") or None)

    return AccessRule(needs)


class Guard:
    """Checks every request before its handler runs; made only when access is controlled."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def check(self, rule: AccessRule, channel: RemotingChannel, command: Command) -> bool:
        """Whether the sender is authorized. False only for open requests, which are served even then.

        Raises RemotingError, with upstream's code and words, for a request that is refused.
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
        account = accounts.find(command.ext.get(ACCESS_KEY))
        if account.trusts(host):
            return
        if not is_signed(command, account.secret):
            raise SignatureError(f"Check signature failed for accessKey={account.access_key}")
        if rule.is_admin:
            account.check_admin(f"request code={command.code}")
        account.check(rule.needs(command))
