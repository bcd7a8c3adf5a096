"""Check requests against the accounts, by the access rule that each request declares."""

from typing import Final

from mocketmq.access.access import Access
from mocketmq.doors import peer_host
from mocketmq.errors import AccessError, SignatureError
from mocketmq.remoting.access_rule import AccessRule
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.wire.codes import ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.errors import RemotingError
from mocketmq.remoting.wire.signature import ACCESS_KEY, is_signed

_EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "
"""The name of upstream's exception, with which refusals begin."""


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
