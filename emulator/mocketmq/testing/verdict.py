"""What a test must not leave behind: a dead broker or, if it is strict, messages that nobody acknowledged."""

from typing import Final

from mocketmq.testing.broker import Broker

_COMMIT: Final = "6s"
"""Real time for consumers that run on; clients commit what they have consumed every five seconds."""


def on(broker: Broker, *, is_strict: bool) -> str:
    """Why the test fails; empty if it does not."""
    if broker.process and broker.has_died:
        return f"{broker.process.death} in this test; its last lines:\n{broker.process.last_lines}"
    if not is_strict or not (found := broker.leaks(wait=_COMMIT)):
        return ""
    return "\n  ".join(
        ["the test left messages that were not acknowledged:", *(leak["text"] for leak in found)]
    )
