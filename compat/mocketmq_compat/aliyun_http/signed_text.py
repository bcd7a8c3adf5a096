"""The string that clients sign, and how they sign it (docs/protocol/aliyun.md §1.4)."""

import base64
import hmac
from collections.abc import Mapping


def string_to_sign(method: str, target: str, headers: Mapping[str, str]) -> str:
    """Return the string that a client has to sign.

    ``target`` is the target exactly as in the request line. Header names may be in any case.
    """
    own = sorted((name.lower(), value) for name, value in headers.items() if name.lower().startswith("x-mq-"))
    return "\n".join(
        [
            method,
            headers.get("Content-MD5", ""),
            headers.get("Content-Type", ""),
            headers.get("Date", ""),
            *(f"{name}:{value}" for name, value in own),
            target,
        ]
    )


def sign(secret: str, text: str) -> str:
    """Sign the string: base64 of HMAC-SHA1 with the key's secret."""
    # aiohttp turns bytes that are not UTF-8 into surrogates.
    code = hmac.digest(secret.encode(), text.encode(errors="surrogateescape"), "sha1")
    return base64.b64encode(code).decode()
