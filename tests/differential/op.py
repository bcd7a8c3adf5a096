"""Operations that are played on two brokers, and the form of their results."""

from collections.abc import Mapping
from typing import Any, NamedTuple

CHANGING = frozenset(
    (
        *("send", "send_batch", "end", "held", "heartbeat", "unregister", "leave", "lock", "back", "commit"),
        *("expect", "change", "leave_open", "asked"),
        *("pop", "held_pop", "pop_and_lapse", "ack", "acks", "invisible", "recall"),
        *("held_notification", "held_reset", "hand_over"),
        *("settings", "beat", "terminate", "produce", "cancel", "decide", "receive", "odd_receive"),
        *("settle", "hide", "forward", "in_order", "orphan", "lapse"),
    )
)
"""Operations that change something and so must be played only once. All others only read."""


class Op(NamedTuple):
    """One operation: a method of :class:`~tests.differential.operations.Side`, and its arguments."""

    name: str
    args: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={_short(value)}' for key, value in self.args.items())})"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:150]}… ({len(text)} characters)"


class Ends(NamedTuple):
    """Addresses on which a broker and its name server listen."""

    host: str
    namesrv_port: int
    broker_port: int
    grpc_port: int = 0


Seen = dict[str, Any]
"""The result of an operation, as JSON without the parts that differ between runs of one broker."""
