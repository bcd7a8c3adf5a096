"""Reads responses of the JSON API, and raises an error if the broker refused the request."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from mocketmq.errors import EmulatorError, shorten

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""

JsonObject = dict[str, Any]


class BrokerError(EmulatorError):
    """The broker refused the request; the attributes are those of its problem document (RFC 9457)."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.title = str(problem.get("title", "error"))
        self.detail = str(problem.get("detail", ""))
        self.field: str | None = problem.get("field")
        self.allowed: str | None = problem.get("allowed")
        super().__init__(self.detail or f"{self.title} (HTTP status {status})")


class UnreachableError(EmulatorError):
    """No broker answers at the address, or the connection broke before it answered."""


class RawAnswer(NamedTuple):
    """An HTTP response with its body."""

    status: int
    reason: str | None
    body: bytes

    def read(self, url: str) -> JsonObject:
        """Return the JSON object of a response from the broker at ``url``. Raises BrokerError."""
        try:
            answer = json.loads(self.body)
        except ValueError:
            answer = None
        if self.status >= 400:
            raise BrokerError(self.status, answer if isinstance(answer, dict) else {"title": self.reason})
        if not isinstance(answer, dict):
            raise BrokerError(
                self.status,
                {"title": f"{url} does not look like a mocketmq broker: it answered {shorten(self.body)}"},
            )
        return answer


def body_of(message: Mapping[str, Any]) -> bytes:
    """Return the body of a message in a response, as bytes."""
    text: str | None = message["body"]
    return base64.b64decode(message["body_base64"]) if text is None else text.encode()
