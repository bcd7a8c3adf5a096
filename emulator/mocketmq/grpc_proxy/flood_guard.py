"""Limits the rate of frames that cost a client little, to stop attacks like rapid reset (CVE-2023-44487)."""

from mocketmq.clock import steady_us
from mocketmq.grpc_proxy.client_limits import (
    BYTES_PER_ANSWERED,
    COUNTED_US,
    MAX_ANSWERED,
    MAX_EMPTY,
    MAX_RESETS,
    MAX_SETTINGS,
)
from mocketmq.grpc_proxy.frames import Http2Code, Http2Error


class FloodGuard:
    """The frame counts of one connection, which restart every ``COUNTED_US``."""

    def __init__(self) -> None:
        self._began_us = steady_us()
        self._counts: dict[str, int] = {}
        self._sent_bytes = 0

    def sent(self, size: int) -> None:
        """Raise the limit on control frames in proportion to the bytes sent."""
        self._sent_bytes += size

    def reset(self) -> None:
        """Count a reset stream. This method and the methods below raise Http2Error above their limits."""
        self._count("stream resets", MAX_RESETS)

    def settings(self) -> None:
        self._count("SETTINGS frames", MAX_SETTINGS)

    def empty(self) -> None:
        self._count("empty frames", MAX_EMPTY)

    def answered(self) -> None:
        """Count a frame of a kind that clients send in proportion to the data they receive."""
        self._count("small frames", MAX_ANSWERED + self._sent_bytes // BYTES_PER_ANSWERED)

    def _count(self, kind: str, limit: int) -> None:
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count <= limit:
            return
        now_us = steady_us()
        if now_us - self._began_us < COUNTED_US:
            raise Http2Error(
                Http2Code.ENHANCE_YOUR_CALM,
                f"more than {limit} {kind} in {COUNTED_US // 1_000_000} s",
            )
        self._began_us, self._sent_bytes = now_us, 0
        self._counts = {kind: 1}
