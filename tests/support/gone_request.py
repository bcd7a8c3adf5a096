"""A request whose client has closed its connection."""

from types import SimpleNamespace
from typing import Any

from mocketmq.http_api.answers import Answers


def gone_request() -> Any:
    """What handlers use of such a request."""
    request: Any = SimpleNamespace(transport=SimpleNamespace(is_closing=lambda: True))
    Answers().begin(request)
    return request
