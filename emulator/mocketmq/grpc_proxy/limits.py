"""Every limit on what a gRPC client may send, hold or leave open; `memory` has those on bytes held.

The limits on cheap frames follow Netty, which serves RocketMQ's proxy: Http2MaxRstFrameDecoder (200
RST_STREAM in 30 s) and DefaultHttp2ConnectionDecoder (empty DATA). Clients send PING and WINDOW_UPDATE in
proportion to the data they receive, so their allowance grows with the bytes sent to them, as grpc-go's server
resets ping strikes.
"""

from typing import Final

from mocketmq.clock import US_PER_S

MAX_STREAMS: Final = 1_024
"""RPCs of one connection at a time: a long poll for each queue of many topics, and requests beside them."""
WINDOW_BYTES: Final = 1 << 20
"""Bytes that a client may send on a connection, or on a stream, before they are read."""
MAX_FRAME_BYTES: Final = 16 << 10
MAX_HEADER_BYTES: Final = 16 << 10
"""Headers of a request, packed and unpacked."""
MAX_REQUEST_BYTES: Final = 32 << 20
"""Above any message that the settings allow, with its properties."""
MAX_DRAINED_BYTES: Final = 64 << 20
"""What a client may still send of a request that was refused."""
MAX_POLL_BYTES: Final = 64 << 10
MAX_COMMAND_BYTES: Final = 4 << 20
"""Requests that are not counted while they are in work, as that may take long."""
MAX_COMMANDS: Final = 64
"""Messages on a stream that wait to be read by their handler."""

FRAMES_PER_TURN: Final = 16
"""Frames of connections that have sent many, handled in a turn of the event loop; then others have theirs."""
BYTES_PER_TURN: Final = 256 << 10
"""Bytes written to one connection in a turn of the event loop."""

COUNTED_US: Final = 30 * US_PER_S
MAX_RESETS: Final = 200
"""Streams that a client resets, or provokes the server into resetting, in ``COUNTED_US``."""
MAX_SETTINGS: Final = 100
MAX_EMPTY: Final = 200
"""Frames that carry nothing (empty DATA, PRIORITY, unknown types, frames of streams that have ended)."""
MAX_CONTINUATIONS: Final = 8
"""CONTINUATION frames of one request."""
MAX_ANSWERED: Final = 1_000
"""PING, WINDOW_UPDATE and DATA under ``SMALL_BYTES``, beside those that the server's own bytes allow."""
SMALL_BYTES: Final = 64
BYTES_PER_ANSWERED: Final = 1 << 10
"""Each time so many bytes were sent to the client, one more such frame is allowed."""

IDLE_S: Final = 120.0
"""After so long without an RPC a connection is closed, as upstream (grpcClientIdleTimeMills)."""
STALLED_S: Final = 30.0
"""After so long without a further byte an unfinished request is refused."""
LINGER_S: Final = 1.0
"""For so long a refused connection stays open, but is not read, so that the client learns why."""
GRACE_S: Final = 2.0
"""Real seconds for running requests to end when the server stops."""
