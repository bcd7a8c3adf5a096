"""Check the signature, date and digest of a request (docs/protocol/aliyun.md §1.3 and §1.4)."""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime, parsedate_tz
from typing import Final

from mocketmq.access.accounts import Account, Accounts
from mocketmq.clock import US_PER_S, wall_us
from mocketmq.errors import shorten
from mocketmq_compat.aliyun_http.errors import AliyunError
from mocketmq_compat.aliyun_http.signed_text import sign, string_to_sign

MAX_SKEW: Final = timedelta(minutes=15)

_EXAMPLE: Final = "Tue, 11 Apr 2017 10:09:19 GMT"
_IN_ANOTHER_LANGUAGE: Final = re.compile(r"\S+ \d\d? \S+ \d{4} \d\d:\d\d:\d\d GMT")
"""Date of a Python client in its locale's language. The date is signed, but not checked."""


def check_signature(
    method: str, target: str, headers: Mapping[str, str], accounts: Accounts, host: str
) -> Account | None:
    """Return the account that signed the request, at most 15 minutes ago by the wall clock.

    Returns None if the client at ``host`` needs no signature. A temporary access key is valid only with its
    security token, which is not signed. Raises AliyunError with the code of the mistake, and AuthError for a
    disabled user.
    """
    if accounts.trusts(host):
        return None
    given = headers.get("Authorization", "")
    if not given:
        raise AliyunError(
            "MissingAuthorizationHeader",
            "the request must be signed: Authorization: MQ <access key id>:<signature>",
        )
    match = re.fullmatch(r"MQ ([^:\s]+):([^:\s]+)", given)
    if not match:
        raise AliyunError(
            "InvalidAuthorizationHeader",
            "the Authorization header is malformed; allowed: MQ <access key id>:<signature>",
        )
    key_id, signature = match.groups()
    account = accounts.get(key_id)
    if account is not None and account.trusts(host):
        return None
    _check_date(headers.get("Date", ""))
    if account is None:
        raise AliyunError("InvalidAccessKeyId", f"the access key id {shorten(key_id)} is unknown")
    account.check_enabled()
    _check_token(account, headers.get("security-token", ""))
    text = string_to_sign(method, target, headers)
    expected = sign(account.secret, text)
    if not _is_same(signature, expected):
        raise AliyunError(
            "SignatureDoesNotMatch",
            f"the secret is wrong, or the client signed a text other than {text!r}",
        )
    return account


def _check_token(account: Account, given: str) -> None:
    if account.security_token is not None and not _is_same(given, account.security_token):
        mistake = "another token was sent" if given else "no token was sent"
        needed = f"the access key {account.access_key} needs its STS token in the header security-token"
        raise AliyunError("InvalidAccessKeyId", f"{needed}; {mistake}")


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="surrogateescape"), expected.encode())


def _check_date(text: str) -> None:
    if not text:
        raise AliyunError("MissingDateHeader", f"the Date header is missing; allowed: such as {_EXAMPLE}")
    if parsedate_tz(text) is None and _IN_ANOTHER_LANGUAGE.fullmatch(text):
        return
    try:
        signed = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        raise AliyunError(
            "InvalidDateHeader", f"Date is {shorten(text)}; allowed: such as {_EXAMPLE}"
        ) from None
    if signed.tzinfo is None:
        signed = signed.replace(tzinfo=UTC)
    now = datetime.fromtimestamp(wall_us() // US_PER_S, UTC)
    if abs(signed - now) > MAX_SKEW:
        raise AliyunError(
            "TimeExpired",
            f"Date is {shorten(text)}; allowed: within 15 minutes of {format_datetime(now, True)}",
        )


def check_digest(given: str | None, content: bytes) -> None:
    """Raise AliyunError ``InvalidDigest`` for a wrong ``Content-MD5``; the header may be missing.

    The header may be base64 of the digest (RFC 1864), the digest in hex, or base64 of the hex text, which
    Aliyun's clients send.
    """
    if not given:
        return
    digest = hashlib.md5(content, usedforsecurity=False)
    text = digest.hexdigest()
    if given.lower() != text and given not in (_base64(digest.digest()), _base64(text.encode())):
        raise AliyunError("InvalidDigest", f"Content-MD5 is {shorten(given)}, but the body's MD5 is {text}")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
