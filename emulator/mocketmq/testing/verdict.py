"""What a test must not leave behind: a dead broker."""

from mocketmq.testing.broker import Broker


def on(broker: Broker) -> str:
    """Why the test fails; empty if it does not."""
    if broker.process and broker.has_died:
        return f"{broker.process.death} in this test; its last lines:\n{broker.process.last_lines}"
    return ""
