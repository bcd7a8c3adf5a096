"""Access control for gRPC: verifies the sender's signature, and maps RPCs to the permissions they need.

The required permissions are RocketMQ's (PlainAccessResource.java, 5.3.3;
DefaultAuthorizationContextBuilder.java, 5.5.0). As in 5.5.0 but not in 5.3.3, a producer's Telemetry stream
needs PUB on its topics, and a Heartbeat SUB on its group.

The sender signs in the header ``authorization`` (DefaultAuthenticationContextBuilder, 5.3.3):
``MQv2-HMAC-SHA1 Credential=KEY, SignedHeaders=x-mq-date-time, Signature=HEX``. The signature is computed from
the header ``x-mq-date-time`` and the secret. The date is not compared to a clock, because most SDKs write
local time.
"""

import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from mocketmq.access.access import Access
from mocketmq.access.accounts import Account
from mocketmq.access.needs import Action, Need, to_consume, to_look_up, to_produce
from mocketmq.errors import AuthError


def needs(rpc: str, request: Any) -> Iterable[Need]:
    """Return the permissions that a request needs. Every RPC must have a row in the table."""
    return TABLE[rpc](request)


def settings_needs(settings: Any) -> Iterator[Need]:
    """Return the permissions that a client needs for the settings on its Telemetry stream."""
    for topic in settings.publishing.topics:
        yield from to_produce(topic.name)
    if settings.WhichOneof("pub_sub") == "subscription":
        group = settings.subscription.group.name
        yield from to_consume(None, group)
        for entry in settings.subscription.subscriptions:
            yield from to_consume(entry.topic.name, group)


def _route(request: Any) -> Iterator[Need]:
    return to_look_up(request.topic.name, Action.PUB | Action.SUB)


def _sends(request: Any) -> Iterator[Need]:
    for message in request.messages:
        yield from to_produce(message.topic.name)


def _produces(request: Any) -> Iterator[Need]:
    return to_produce(request.topic.name)


def _receives(request: Any) -> Iterator[Need]:
    return to_consume(request.message_queue.topic.name, request.group.name)


def _consumes(request: Any) -> Iterator[Need]:
    return to_consume(request.topic.name, request.group.name)


def _hides(request: Any) -> Iterator[Need]:
    """Require only the group's permission of a user that changes an invisible duration."""
    of_group, *of_topic = to_consume(request.topic.name, request.group.name)
    yield of_group
    yield from (need._replace(actions=None) for need in of_topic)


def _of_group(request: Any) -> Iterator[Need]:
    return to_consume(None, request.group.name or None)  # a producer names no group


def _of_settings(request: Any) -> Iterator[Need]:  # noqa: ARG001 - checked when the settings arrive
    return iter(())


TABLE: Final[Mapping[str, Callable[[Any], Iterable[Need]]]] = {
    "QueryRoute": _route,
    "QueryAssignment": _consumes,
    "Heartbeat": _of_group,
    "NotifyClientTermination": _of_group,
    "SendMessage": _sends,
    "RecallMessage": _produces,
    "EndTransaction": _produces,  # the half message must belong to the topic that the request names
    "ReceiveMessage": _receives,
    "AckMessage": _consumes,
    "ChangeInvisibleDuration": _hides,
    "ForwardMessageToDeadLetterQueue": _consumes,
    "SyncLiteSubscription": _consumes,
    "Telemetry": _of_settings,
}


def signer_of(access: Access, headers: Mapping[str, str], host: str) -> Account | None:
    """Return the account that signed a request; None if the sender needs no signature. Raises AccessError."""
    accounts = access.accounts
    if accounts.trusts(host):
        return None
    date = headers.get("x-mq-date-time", "")
    access_key, signature = _credential_and_signature(headers.get("authorization", ""), date)
    account = accounts.find_account(access_key or None)
    if account.trusts(host):
        return None
    expected = hmac.new(account.secret.encode(), date.encode(), hashlib.sha1).digest()
    if not hmac.compare_digest(expected, signature):
        raise accounts.signature_error(account)
    return account


def _credential_and_signature(header: str, date: str) -> tuple[str, bytes]:
    """Return the access key and the signature in the header ``authorization``. Raises AuthError."""
    if not header:
        return "", b""
    if not date:
        raise AuthError("datetime is null.")
    _, space, rest = header.partition(" ")
    if not space:
        raise AuthError("authentication header is incorrect.")
    values: dict[str, str] = {}
    for part in rest.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals:
            raise AuthError("authentication keyValues length is incorrect, actual length=1.")
        values[name] = value
    try:
        signature = binascii.unhexlify(values.get("Signature", ""))
    except ValueError:
        raise AuthError("create authentication context error.") from None
    return values.get("Credential", "").partition("/")[0], signature  # the Go SDK adds a suffix
