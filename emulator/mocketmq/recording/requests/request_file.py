"""The file of recorded requests: JSON lines, first a recording's header, then an event on each line.

The events are in the order in which they happened on the broker: a request arrives, a response is made, a
connection ends. So the file shows what the broker had done before each response, and which requests were
waiting at that time.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple

import msgspec

from mocketmq.recording.recording import RecordingError, RecordingReader

LARGEST: Final = 4 << 20
"""Maximum size of a recorded body of a request or an answer, in bytes."""

EventKind = Literal["start", "request", "answer", "left", "lost", "full"]


class RequestEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event at ``at_ms`` on the broker's clock. Numbers count from 1 in each run of the broker.

    ``start``: the broker was started, with the next offset of each queue in ``content``. ``request``: request
    ``number`` came through a ``door`` on a ``connection``; ``broker`` is the index of the broker that it
    reached, if there are several, and ``ahead_ms`` is the lead of the broker's clock over the wall clock.
    ``answer``: the request was answered. ``left``: a connection has ended. ``lost``: ``number`` events are
    missing, because the disk was slow, or because they cannot be written as JSON. ``full``: the recording
    reached its maximum size.
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
