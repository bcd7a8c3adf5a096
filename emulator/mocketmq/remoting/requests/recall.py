"""Recall delayed messages. Upstream can since 5.3, timers alone, and only if it is switched on.

A handle names a message as upstream's does: ``v1 topic broker instant unique-key`` in Base64. The instant
is the due time by the emulated clock, in milliseconds, rounded up.
"""

import base64
import binascii
import re
from typing import Final, NamedTuple

from mocketmq.broker.broker import Broker
from mocketmq.broker.sending.sender import SendResult
from mocketmq.clock import US_PER_MS, whole_ms_us
from mocketmq.errors import EmulatorError, NotPendingError
from mocketmq.message import identity
from mocketmq.message.names import RETRY_PREFIX
from mocketmq.remoting.access_rule import publishes
from mocketmq.remoting.request import RemotingCall, Request, RequestFamily, Response
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.errors import RemotingError, code_of
from mocketmq.settings import Settings

_VERSION: Final = "v1"
_LONG: Final = re.compile(r"[+-]?[0-9]{1,19}")
_EXT: Final = {"MSG_REGION": identity.REGION}


class RecallMessageHeader(NamedTuple):
    """``recall_handle`` came with the answer to the send."""

    topic: str
    recall_handle: str


class RecallHandle(NamedTuple):
    """The parts of a recall handle."""

    topic: str
    broker: str
    due_ms: int
    unique_key: str

    def encode(self) -> str:
        """The handle as senders get it."""
        text = f"{_VERSION} {self.topic} {self.broker} {self.due_ms} {self.unique_key}"
        return base64.urlsafe_b64encode(text.encode()).decode()

    @classmethod
    def decode(cls, text: str) -> "RecallHandle":
        """Read a handle. As upstream, an instant that is no number is read as -1. Raises RemotingError."""
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
            raise _illegal("recall handle is invalid")
        _, topic, broker, instant, unique_key = parts
        return cls(topic, broker, int(instant) if _LONG.fullmatch(instant) else -1, unique_key)


def recall_handle_of(sent: SendResult, *, of_levels: bool) -> str | None:
    """The handle of a delayed message; None for any other message, and for retries.

    ``of_levels``: also for messages that are delayed by level.
    """
    due_us, topic = sent.stored.due_us, sent.queue.topic
    if due_us is None or topic.startswith(RETRY_PREFIX) or (sent.level and not of_levels):
        return None
    return RecallHandle(topic, identity.BROKER, _due_ms(due_us), sent.stored.unique_key).encode()


async def recall(call: RemotingCall[RecallMessageHeader]) -> Response:
    """Cancel a delayed message, and answer when that is durable."""
    try:
        header = call.header
        recalled = await recall_by_handle(call.broker, call.settings, header.topic, header.recall_handle)
        return Response({**_EXT, "msgId": recalled})
    except EmulatorError as error:
        return Response(_EXT, code=code_of(error), remark=str(error))


async def recall_by_handle(broker: Broker, settings: Settings, topic: str, text: str) -> str:
    """Recall the message of a topic that a handle names; returns its unique key.

    Checks in upstream's order, but by the emulated clock and without a latest time. Raises RemotingError.
    """
    if broker.registry.topics.find(topic) is None:
        raise RemotingError(ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{topic}] not exist")
    handle = RecallHandle.decode(text)
    if handle.topic != topic:
        raise _illegal("recall failed, topic not match")
    if handle.broker != identity.BROKER:
        raise _illegal("recall failed, broker service not available")
    if handle.due_ms * US_PER_MS <= broker.clock.now_us():
        raise _illegal("recall failed, timestamp invalid")
    try:
        await broker.inspection.pending.recall(topic, handle.unique_key, handle.due_ms * US_PER_MS)
    except NotPendingError as error:
        if settings.strict_recall:
            raise _illegal(f"recall failed, {error}") from None
    return handle.unique_key


def _due_ms(due_us: int) -> int:
    return whole_ms_us(due_us) // US_PER_MS


def _illegal(remark: str) -> RemotingError:
    return RemotingError(ResponseCode.ILLEGAL_OPERATION, remark)


RECALL: Final = RequestFamily(
    "Recalling",
    [
        Request(RequestCode.RECALL_MESSAGE, RecallMessageHeader, recall, access=publishes("topic")),
    ],
)
