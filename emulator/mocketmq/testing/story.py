"""What became of the broker in a test, for the report of one that failed."""

from mocketmq.testing.broker import Broker


def of(broker: Broker) -> str:
    """How the broker died; empty if it lives."""
    if broker.process and broker.has_died:
        return f"{broker.process.death}; its last lines:\n{broker.process.last_lines}"
    return ""
