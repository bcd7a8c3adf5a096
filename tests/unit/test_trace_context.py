"""Trace contexts as W3C defines them, in the properties of messages."""

import pytest

from mocketmq.message.trace_context import TraceContext, trace_context_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({"traceparent": PARENT}, TraceContext(TRACE, SPAN, 1, "")),
        ({"traceparent": PARENT, "tracestate": "a=1"}, TraceContext(TRACE, SPAN, 1, "a=1")),
        ({"traceparent": PARENT, "tracestate": "a" * 513}, TraceContext(TRACE, SPAN, 1, "")),
        ({"traceparent": f"00-{TRACE}-{SPAN}-00"}, TraceContext(TRACE, SPAN, 0, "")),
        ({"traceparent": f"01-{TRACE}-{SPAN}-03-more"}, TraceContext(TRACE, SPAN, 3, "")),
        ({"TRACE_CONTEXT": PARENT}, TraceContext(TRACE, SPAN, 1, "")),
        ({"traceparent": "t", "TRACE_CONTEXT": PARENT}, TraceContext(TRACE, SPAN, 1, "")),
    ],
)
def test_a_context_is_found(properties: dict[str, str], found: TraceContext) -> None:
    assert trace_context_of(properties) == found
    assert found.is_sampled == bool(found.flags & 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "t",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}-١١",
    ],
)
def test_a_malformed_context_is_none(text: str) -> None:
    assert trace_context_of({"traceparent": text, "TRACE_CONTEXT": text}) is None
