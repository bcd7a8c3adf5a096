"""Reads the parts of a request: topic, parameters, content (docs/protocol/aliyun.md §1.2)."""

import re
from collections.abc import Container
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from mocketmq.broker.broker import Broker
from mocketmq.errors import InvalidArgumentError, shorten
from mocketmq.event_loop import EventLoopTurns
from mocketmq.http_api import web
from mocketmq.settings import Settings
from mocketmq_compat.aliyun_http.errors import AliyunError

MAX_REQUEST_LINE: Final = 1_024
"""Longest request line in characters, including method and version."""


class AliyunCall(NamedTuple):
    """A request, as passed to operations. ``topic`` and ``group`` are the broker's names: ``ns%name``."""

    broker: Broker
    settings: Settings
    request: web.BaseRequest
    topic: str
    parameters: dict[str, str]
    content: bytes
    turns: EventLoopTurns

    @property
    def group(self) -> str:
        """The consumer group. Raises InvalidArgumentError if there is none."""
        name = self.parameters.get("consumer")
        if not name:
            raise InvalidArgumentError("consumer", name, "the id of a group")
        return in_namespace(self.parameters.get("ns"), name)

    def whole(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """Read a parameter that is a whole number. Raises InvalidArgumentError if it is out of range."""
        text = self.parameters.get(name)
        if text is None and default is not None:
            return default
        number = whole_number(text or "")
        if number is None or not low <= number <= high:
            raise InvalidArgumentError(name, text, f"a whole number from {low} to {high}")
        return number


def check_request_line(request: web.BaseRequest) -> None:
    """Raise AliyunError ``InvalidRequestURL`` for a request line that is too long."""
    length = len(f"{request.method} {request.raw_path} HTTP/1.1")
    if length > MAX_REQUEST_LINE:
        raise AliyunError(
            "InvalidRequestURL",
            f"the request line has {length} characters; allowed: at most {MAX_REQUEST_LINE}",
        )


def topic_in(request: web.BaseRequest) -> str:
    """Read the topic from the path, without its namespace. Raises AliyunError ``InvalidRequestURL``."""
    match = re.fullmatch("/topics/([^/]+)/messages", request.rel_url.raw_path)
    if not match:
        path = shorten(request.rel_url.raw_path)
        raise AliyunError("InvalidRequestURL", f"no such path: {path}; allowed: /topics/<topic>/messages")
    return unquote(match[1])


def parameters_in(request: web.BaseRequest, allowed: Container[str]) -> dict[str, str]:
    """Read the parameters of the query, in any order.

    Raises AliyunError ``InvalidQueryString`` for a parameter that is unknown to the method, or repeated.
    """
    parameters: dict[str, str] = {}
    try:
        pairs = parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True, errors="strict")
    except ValueError:
        raise AliyunError("InvalidQueryString", "the query is not percent-encoded UTF-8") from None
    for name, value in pairs:
        if name not in allowed:
            raise AliyunError(
                "InvalidQueryString", f"{request.method} does not accept the parameter {shorten(name)}"
            )
        if name in parameters:
            raise AliyunError("InvalidQueryString", f"{name} is given twice; allowed: once")
        parameters[name] = value
    return parameters


def in_namespace(namespace: str | None, name: str) -> str:
    """Return the broker's name for a topic or group in a namespace; the default namespace has no name."""
    return f"{namespace}%{name}" if namespace else name


def whole_number(text: str) -> int | None:
    """Parse ASCII digits; None for any other text."""
    return int(text) if re.fullmatch("-?[0-9]{1,18}", text) else None
