"""Signatures of requests (sheet 10.1; AclSigner and AclUtils of 4.9.8).

What is signed are the values of the ext fields, in the order of their names, then the body. Clients differ in
which fields that are.
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
"""Fields that some clients sign and some do not: Go leaves out the token, and upstream's 4.x broker the mark
of a look-up by unique key, which older clients add after they have signed."""


def sign(secret: str, content: bytes) -> bytes:
    """base64 of HMAC-SHA1."""
    return base64.b64encode(hmac.digest(secret.encode(), content, "sha1"))


def is_signed(command: Command, secret: str) -> bool:
    """Whether the request is signed with this secret, in the way of any client."""
    given = command.ext.get(SIGNATURE, "").encode(errors="replace")
    return any(hmac.compare_digest(given, sign(secret, content)) for content in contents(command))


def contents(command: Command) -> Iterator[bytes]:
    """What clients may have signed of the request, the likeliest first."""
    unsure = [name for name in _SOMETIMES if name in command.ext]
    names = sorted(command.ext.keys() - {SIGNATURE})
    for count in range(len(unsure) + 1):
        for left_out in combinations(unsure, count):
            text = "".join([command.ext[name] for name in names if name not in left_out])
            yield text.encode(errors="replace") + command.body
