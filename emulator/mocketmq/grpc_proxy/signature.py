"""Check who sends a request: the header ``authorization`` (DefaultAuthenticationContextBuilder, 5.3.3).

``MQv2-HMAC-SHA1 Credential=KEY, SignedHeaders=x-mq-date-time, Signature=HEX``, where the signature is made of
the header ``x-mq-date-time`` and the secret. The date is not compared to a clock: most SDKs write local time.
"""

import hashlib
import hmac
from collections.abc import Mapping

from mocketmq.access.access import Access
from mocketmq.access.accounts import Account
from mocketmq.errors import SignatureError


def signer_of(access: Access, headers: Mapping[str, str], host: str) -> Account | None:
    """The account that signed a request; None if its sender is trusted without. Raises AccessError."""
    accounts = access.accounts
    if accounts.trusts(host):
        return None
    parts = _parts(headers.get("authorization", ""))
    account = accounts.find(parts.get("Credential", "").partition("/")[0] or None)  # Go's has a suffix
    if account.trusts(host):
        return None
    date = headers.get("x-mq-date-time", "")
    signature = hmac.new(account.secret.encode(), date.encode(), hashlib.sha1).hexdigest()
    if not hmac.compare_digest(signature.encode(), parts.get("Signature", "").lower().encode()):
        raise SignatureError(f"Check signature failed for accessKey={account.access_key}")
    return account


def _parts(header: str) -> dict[str, str]:
    _, _, rest = header.partition(" ")
    pairs = (part.strip().partition("=") for part in rest.split(","))
    return {name: value for name, _, value in pairs}
