"""Check who sends a request: the header ``authorization`` (DefaultAuthenticationContextBuilder, 5.3.3).

``MQv2-HMAC-SHA1 Credential=KEY, SignedHeaders=x-mq-date-time, Signature=HEX``, where the signature is made of
the header ``x-mq-date-time`` and the secret. The date is not compared to a clock: most SDKs write local time.
"""

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mocketmq.access.access import Access
from mocketmq.access.accounts import Need, Permission, group_need, topic_need
from mocketmq.errors import SignatureError

_SENDS: Final = frozenset({"SendMessage", "EndTransaction", "RecallMessage"})
_CONSUMES: Final = frozenset(
    {
        "QueryAssignment",
        "ReceiveMessage",
        "AckMessage",
        "ChangeInvisibleDuration",
        "ForwardMessageToDeadLetterQueue",
    }
)


def check_access(access: Access, rpc: str, metadata: Mapping[str, Any], host: str, request: Any) -> None:
    """Raise AccessError unless the sender may do this."""
    accounts = access.accounts
    if accounts.trusts(host):
        return
    parts = _parts(str(metadata.get("authorization", "")))
    account = accounts.find(parts.get("Credential", "").partition("/")[0] or None)  # Go's has a suffix
    if account.trusts(host):
        return
    date = str(metadata.get("x-mq-date-time", ""))
    signature = hmac.new(account.secret.encode(), date.encode(), hashlib.sha1).hexdigest()
    if not hmac.compare_digest(signature.encode(), parts.get("Signature", "").lower().encode()):
        raise SignatureError(f"Check signature failed for accessKey={account.access_key}")
    account.check(_needs(rpc, request))


def _parts(header: str) -> dict[str, str]:
    _, _, rest = header.partition(" ")
    pairs = (part.strip().partition("=") for part in rest.split(","))
    return {name: value for name, _, value in pairs}


def _needs(rpc: str, request: Any) -> Iterator[Need]:
    if rpc in _SENDS:
        topics = [one.topic for one in request.messages] if rpc == "SendMessage" else [request.topic]
        yield from (topic_need(topic.name, Permission.PUB) for topic in topics)
    elif rpc in _CONSUMES:
        topic = request.message_queue.topic if rpc == "ReceiveMessage" else request.topic
        yield topic_need(topic.name, Permission.SUB)
        yield group_need(request.group.name)
