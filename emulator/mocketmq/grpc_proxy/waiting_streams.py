"""The streams of a connection that have unsent bytes, and how fast the client reads them."""

from mocketmq.clock import steady_us
from mocketmq.connections.reading_pace import ReadingPace
from mocketmq.grpc_proxy.stream import Stream


class WaitingStreams:
    """Streams that wait for a window, or for room in the connection's write buffer.

    A blocked stream has a window, and waits for the connection's. The others wait for their own.
    """

    def __init__(self) -> None:
        self._paces: dict[Stream, ReadingPace] = {}
        self._pace = ReadingPace(0)  # of all streams together, while any of them waits
        self._blocked: dict[Stream, int] = {}  # and since when, by the steady clock

    def pumped(self, stream: Stream, written: int) -> None:
        """Record that bytes of the stream were written, and what it waits for now."""
        now_us = steady_us()
        self._pace.add_read(written, now_us)
        if not stream.wants_window:
            self.remove(stream)
            return
        if not self._paces:
            self._pace = ReadingPace(now_us)
        pace = self._paces.get(stream)
        if pace is None:
            self._paces[stream] = ReadingPace(now_us)
        else:
            pace.add_read(written, now_us)
            # The pace of a stream leaves out the time in which it waited for the connection.
            pace.since_us += now_us - max(self._blocked.get(stream, now_us), pace.since_us)
        if stream.send_window > 0:
            self._blocked[stream] = now_us
        else:
            self._blocked.pop(stream, None)

    def remove(self, stream: Stream) -> None:
        """Remove a stream, whether or not it waits."""
        self._paces.pop(stream, None)
        self._blocked.pop(stream, None)

    def blocked(self) -> list[Stream]:
        """The blocked streams, in the order in which they began to wait."""
        return list(self._blocked)

    def are_slow(self, limit_us: int) -> bool:
        """Whether the client has read less than ``LEAST_READ_BYTES`` since ``limit_us``, by the steady clock.

        The client is slow if that holds for all streams together, or for one that waits for its own window.
        """
        if not self._paces:
            return False
        return self._pace.since_us <= limit_us or any(
            pace.since_us <= limit_us for stream, pace in self._paces.items() if stream not in self._blocked
        )
