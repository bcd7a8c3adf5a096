"""The file of recorded requests: JSON lines, first the header of a recording, then an event on each line.

The events are in the order in which they happened at the broker: a request arrives, an answer is made, a
connection ends. So the file says what the broker had done when it answered, and which requests were then
waiting.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple

import msgspec

from mocketmq.recording.recording import RecordingError, RecordingReader

LARGEST: Final = 4 << 20
"""Largest body of a request or an answer that is recorded, in bytes."""

EventKind = Literal["start", "request", "answer", "left", "lost", "full"]


class RequestEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened at ``at_ms`` on the broker's clock. Numbers count from 1 in each run of the broker.

    ``start``: the broker was started, with the next offset of each queue in ``content``. ``request``: request
    ``number`` came by a ``door`` on a ``connection``; ``broker`` is the index of the one that it reached, of
    several, and ``ahead_ms`` how far the broker's clock was ahead of the wall clock. ``answer``: the request
    was answered. ``left``: a connection has ended. ``lost``: ``number`` events are missing, because the disk
    was slow or they cannot be written as JSON. ``full``: the recording reached its largest size.
    """

    kind: EventKind
    at_ms: int
    number: int = 0
    connection: int = 0
    door: str = ""
    broker: int = 0
    ahead_ms: int = 0
    content: dict[str, Any] = {}


class EventLine(NamedTuple):
    """An event, and the number of its line."""

    number: int
    event: RequestEvent


_decode: Final = msgspec.json.Decoder(RequestEvent).decode


def events_in(recording: RecordingReader) -> Iterator[EventLine]:
    """Yield all events of a recording of requests. Raises RecordingError.

    A last line without a line feed was cut off when its writer was killed, and is left out.
    """
    for number, data in recording.lines():
        try:
            event = _decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise RecordingError(f"{recording.path}, line {number}: {error}") from None
        yield EventLine(number, event)
