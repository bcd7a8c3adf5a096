"""The trace context of a message: the span of the producer, as W3C's ``traceparent`` identifies it.

OpenTelemetry's instrumentations of RocketMQ's clients write the user properties ``traceparent`` and
``tracestate``. gRPC SDKs have a separate field for the trace context, which a broker stores as
``TRACE_CONTEXT``. The broker stores all of these unchanged, so consumers find the producer's span, not a span
of the broker.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from mocketmq.message.properties import TRACE_CONTEXT

TRACE_PARENT: Final = "traceparent"
TRACE_STATE: Final = "tracestate"
MAX_STATE: Final = 512
"""Length of a ``tracestate`` above which W3C allows implementations to drop it."""
_SAMPLED: Final = 0x1
_FORMAT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)


class TraceContext(NamedTuple):
    """The producer's span: lower-case hexadecimal ids, W3C's flags, and the state of tracing systems."""

    trace_id: str
    span_id: str
    flags: int
    state: str

    @property
    def is_sampled(self) -> bool:
        """Whether the producer records this trace."""
        return bool(self.flags & _SAMPLED)


def trace_context_of(properties: Mapping[str, str]) -> TraceContext | None:
    """Return the trace context in a message's properties; None without one, or with one that is malformed."""
    for name in (TRACE_PARENT, TRACE_CONTEXT):
        found = _FORMAT.fullmatch(properties.get(name, "")[:MAX_STATE])
        if found is None:
            continue
        version, trace_id, span_id, flags, rest = found.groups()
        if version != "ff" and not (version == "00" and rest) and int(trace_id, 16) and int(span_id, 16):
            state = properties.get(TRACE_STATE, "")
            return TraceContext(trace_id, span_id, int(flags, 16), state if len(state) <= MAX_STATE else "")
    return None
