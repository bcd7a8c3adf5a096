"""Read instants: epoch milliseconds, or ISO 8601 with an offset."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from mocketmq.errors import InvalidArgumentError

__tracebackhide__ = True
"""pytest shows the line of the test that called, instead of what is here."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ALLOWED: Final = (
    "epoch milliseconds, or an instant with Z or an offset,"
    " such as 2030-01-31T08:00:00Z or 2030-01-31T08:00:00+01:00"
)


def parse_instant_ms(text: str, field: str = "instant") -> int:
    """Epoch milliseconds, rounded up, so that nothing is done before the instant.

    Raises InvalidArgumentError, which names ``field``, also for an instant without an offset: it would be
    another one on another machine.
    """
    if re.fullmatch("[0-9]{1,15}", text):
        return int(text)
    try:
        return -((_EPOCH - datetime.fromisoformat(text)) // timedelta(milliseconds=1))
    except (TypeError, ValueError):
        raise InvalidArgumentError(field, text, _ALLOWED) from None
