"""Fails a test that leaves a dead broker or, if it is strict, unacknowledged messages."""

from __future__ import annotations

from typing import Final

from mocketmq.testing.broker import Broker

_COMMIT: Final = "6s"
"""Real time to wait for running consumers: clients commit their offsets every five seconds."""


def on(broker: Broker, *, is_strict: bool) -> str:
    """The reason why the test fails; empty if it passes."""
    if broker.process and broker.has_died:
        return f"{broker.process.death} in this test; its last lines:\n{broker.process.last_lines}"
    if not is_strict or not (found := broker.leaks(wait=_COMMIT)):
        return ""
    return "\n  ".join(
        ["the test left messages that were not acknowledged:", *(leak["text"] for leak in found)]
    )
