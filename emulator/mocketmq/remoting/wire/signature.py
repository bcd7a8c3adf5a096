"""Checks the signatures of requests (docs/protocol/remoting.md §10.1).

Clients sign the values of the ext fields, in the order of their names, and then the body. Which fields they
sign depends on the client.
"""

import base64
import hmac
from collections.abc import Iterator
from itertools import combinations
from typing import Final

from mocketmq.remoting.wire.command import Command

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"

_SOMETIMES: Final = ("SecurityToken", "_UNIQUE_KEY_QUERY")
"""Fields that only some clients sign. Go clients do not sign the token. Older clients add
``_UNIQUE_KEY_QUERY`` after signing."""


def sign(secret: str, content: bytes) -> bytes:
    """Compute the signature of some content, which is HMAC-SHA1 in Base64."""
    return base64.b64encode(hmac.digest(secret.encode(), content, "sha1"))


def is_signed(command: Command, secret: str) -> bool:
    """Whether the request is signed with this secret, in the manner of any known client."""
    given = command.ext.get(SIGNATURE, "").encode(errors="replace")
    return any(hmac.compare_digest(given, sign(secret, content)) for content in contents(command))


def contents(command: Command) -> Iterator[bytes]:
    """Yield the contents that a client may have signed, the most likely first."""
    unsure = [name for name in _SOMETIMES if name in command.ext]
    names = sorted(command.ext.keys() - {SIGNATURE})
    for count in range(len(unsure) + 1):
        for left_out in combinations(unsure, count):
            text = "".join([command.ext[name] for name in names if name not in left_out])
            yield text.encode(errors="replace") + command.body
