"""Recall handles, with which the sender of a delayed message can cancel it.

The format is upstream's: ``v1 topic broker instant unique-key`` in Base64. The instant is the due time by the
emulated clock, rounded up to milliseconds.
"""

import base64
import binascii
import re
from typing import Final, NamedTuple

from mocketmq.broker.registry.brokers import ClusterBrokers
from mocketmq.broker.sending.sender import SendResult
from mocketmq.clock import US_PER_MS, whole_ms_us
from mocketmq.errors import NotPendingError
from mocketmq.message.names import RETRY_PREFIX

_VERSION: Final = "v1"
_LONG: Final = re.compile(r"[+-]?[0-9]{1,19}")


class RecallHandle(NamedTuple):
    """The parts of a recall handle."""

    topic: str
    broker: str
    due_ms: int
    unique_key: str

    def encode(self) -> str:
        """Encode the handle for the sender."""
        text = f"{_VERSION} {self.topic} {self.broker} {self.due_ms} {self.unique_key}"
        return base64.urlsafe_b64encode(text.encode()).decode()

    @classmethod
    def decode(cls, text: str) -> "RecallHandle":
        """Decode a handle. As upstream, a non-numeric instant becomes -1. Raises NotPendingError."""
        digits = text.rstrip("=")
        padded = digits + "=" * (-len(digits) % 4)
        try:
            if text not in (digits, padded):
                raise ValueError(text)
            raw = base64.b64decode(padded, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        parts = raw.decode(errors="replace").split(" ", 4)
        if len(parts) < len(cls._fields) + 1 or parts[0] != _VERSION or not parts[-1]:
            raise NotPendingError("recall handle is invalid")
        _, topic, broker, instant, unique_key = parts
        return cls(topic, broker, int(instant) if _LONG.fullmatch(instant) else -1, unique_key)


def recall_handle_of(sent: SendResult, brokers: ClusterBrokers, *, of_levels: bool) -> str | None:
    """Make the handle of a delayed message; None for any other message, and for retries.

    With ``of_levels``, messages delayed by level also get handles.
    """
    due_us, topic = sent.stored.due_us, sent.queue.topic
    if due_us is None or topic.startswith(RETRY_PREFIX) or (sent.level and not of_levels):
        return None
    return RecallHandle(
        topic,
        brokers.broker_of_queue(sent.queue).name,
        whole_ms_us(due_us) // US_PER_MS,
        sent.stored.unique_key,
    ).encode()
