"""Constants: limits on the size, number and rate of what a gRPC client sends; `memory` limits the total.

The limits on frames that cost a client little follow Netty, on which RocketMQ's proxy runs:
Http2MaxRstFrameDecoder (200 RST_STREAM in 30 s) and DefaultHttp2ConnectionDecoder (empty DATA). Clients send
PING and WINDOW_UPDATE in proportion to the data that they receive. The limit on these frames therefore grows
with the bytes sent to the client, much as grpc-go's server resets its ping strikes.
"""

from typing import Final

from mocketmq.clock import US_PER_S

MAX_STREAMS: Final = 1_024
"""Maximum number of concurrent RPCs on a connection, enough for long polls of many topics' queues."""
WINDOW_BYTES: Final = 1 << 20
"""Flow-control window: bytes that a client may send ahead of the reader, per connection and per stream."""
MAX_FRAME_BYTES: Final = 16 << 10
MAX_HEADER_BYTES: Final = 16 << 10
"""Maximum size of a request's headers, both compressed and decompressed."""
MAX_REQUEST_BYTES: Final = 32 << 20
"""Maximum size of a request; larger than any message, with properties, that the settings allow."""
MAX_DRAINED_BYTES: Final = 64 << 20
"""Maximum number of bytes of a refused request to read and discard before its stream is reset."""
MAX_POLL_BYTES: Final = 64 << 10
MAX_COMMAND_BYTES: Final = 4 << 20
"""Maximum sizes of a receive request and a Telemetry command. `memory` does not count them while they run,
because they may run for a long time."""
MAX_COMMANDS: Final = 64
"""Maximum number of unread messages on a stream."""

FRAMES_AT_ONCE: Final = 16
"""Maximum number of frames of one connection that are handled on arrival."""
ARRIVALS_PER_TURN: Final = 64
"""Maximum number of frames, of all connections, handled on arrival per iteration of the event loop."""
FRAMES_PER_TURN: Final = 16
"""Maximum number of waiting frames, of all connections, handled per iteration of the event loop."""
REQUESTS_AT_ONCE: Final = 8
"""Maximum number of requests, of all connections, whose handlers begin on arrival per iteration."""
REQUESTS_PER_TURN: Final = 2
"""Maximum number of waiting requests, of all connections, whose handlers begin per iteration."""
ENDED_PER_TURN: Final = 32
"""Maximum number of waiting requests that have ended, and are dropped, per iteration."""
CHECKED_PER_TURN: Final = 32
"""Number of requests and connections checked for stalling or idleness per iteration of the event loop."""
LONG_BODY_BYTES: Final = 64 << 10
"""Size above which a message body is converted for its receiver in a thread."""
BYTES_PER_TURN: Final = 256 << 10
"""Maximum number of bytes written to one connection per iteration of the event loop."""

COUNTED_US: Final = 30 * US_PER_S
MAX_RESETS: Final = 200
"""Maximum number of streams that a client may reset, or make the server reset, within ``COUNTED_US``."""
MAX_SETTINGS: Final = 100
MAX_EMPTY: Final = 200
"""Maximum number of useless frames: empty DATA, PRIORITY, unknown types, frames of ended streams."""
MAX_CONTINUATIONS: Final = 8
"""Maximum number of CONTINUATION frames per request."""
MAX_ANSWERED: Final = 1_000
"""Maximum number of PING, WINDOW_UPDATE and small DATA frames, plus ``BYTES_PER_ANSWERED``'s allowance."""
SMALL_BYTES: Final = 64
BYTES_PER_ANSWERED: Final = 1 << 10
"""A client may send one more PING, WINDOW_UPDATE or small DATA frame per this many bytes sent to it."""

IDLE_S: Final = 120.0
"""Time without an RPC after which a connection is closed, as in RocketMQ (grpcClientIdleTimeMills)."""
STALLED_S: Final = 30.0
"""Time without a further byte after which an incomplete request is refused."""
LINGER_S: Final = 1.0
"""Time that a refused connection stays open, unread, so that the client can read the reason."""
GRACE_S: Final = 2.0
"""Real seconds that running requests get to finish when the server stops."""
