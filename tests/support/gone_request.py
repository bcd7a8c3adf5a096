"""A request whose client has closed its connection."""

from types import SimpleNamespace
from typing import Any

from mocketmq.http_api.answers import Answers


def gone_request() -> Any:
    """Return the parts of a closed client's request that handlers use."""
    transport = SimpleNamespace(is_closing=lambda: True)
    return SimpleNamespace(transport=transport, answers=Answers(), load=None)
