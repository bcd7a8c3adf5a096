"""The rules for each client, in the syntax of ``mocketmq faults add``."""

from collections.abc import Mapping
from typing import Any, Final

SENDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "refuse error=SYSTEM_BUSY operation=send next=1": {},
    "refuse error=SYSTEM_BUSY operation=send": {},
    "refuse error=FLUSH_DISK_TIMEOUT operation=send": {},
    "refuse error=SLAVE_NOT_AVAILABLE operation=send": {},
    "refuse error=SERVICE_NOT_AVAILABLE operation=send": {},
    "refuse error=NO_PERMISSION operation=send": {},
    "refuse error=TOPIC_NOT_EXIST operation=send": {},
    "late by=300ms operation=send": {},
    "never operation=send": {},
    "twice operation=send": {"door": "remoting"},
    "close stage=before operation=send next=1": {},
    "close stage=after operation=send next=1": {},
    "close operation=send": {},
    "read-only": {},
    "disk-full": {},
}
"""Rules for sends, some with their only protocol. A result tells how often a message was stored."""

RECEIVES: Final[Mapping[str, Mapping[str, Any]]] = {
    "refuse error=SYSTEM_BUSY operation=receive next=2": {},
    "late by=300ms operation=receive next=1": {},
    "twice operation=receive next=1": {"door": "remoting"},
    "close stage=after operation=receive next=1": {},
}
"""Rules for receives. A result tells how often a consumer gets a message."""

DELIVERIES: Final = (
    "deliver-late by=31s",
    "deliver-shuffled by='uniform(1s, 60s)' seed=1",
    "deliver-again times=2 by=10s",
    "hold",
    "throttle per_second=1",
)
VARIES: Final = "close operation=send"
"""Rules for which the number of attempts depends on how fast a client reconnects."""
OUTCOMES: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "python-grpc": {
        "close stage=before operation=send next=1": ("sent", "`AioRpcError: StatusCode.UNAVAILABLE`"),
        "close stage=after operation=send next=1": (
            "sent, stored twice",
            "`AioRpcError: StatusCode.UNAVAILABLE`, stored once",
        ),
    }
}
"""The usual and a rare outcome, by client and rule: gRPC's core may lose all three attempts, which follow
each other at once, on the connection that it has not seen to be closed."""
BROKER_AWAY: Final = "broker-away"
NAME_SERVER_AWAY: Final = "name-server-away"
OF_SLAVES: Final = "replicate-late"
"""Needs a slave, which these applications do not have; see ``tests/clients/java/test_brokers.py``."""


def rows(door: str) -> list[str]:
    """Return the rules that apply to a protocol."""
    of_requests = [rule for rule, only in {**SENDS, **RECEIVES}.items() if only.get("door", door) == door]
    absences = [BROKER_AWAY, *([NAME_SERVER_AWAY] if door == "remoting" else [])]
    return [*of_requests, *DELIVERIES, *absences]


def fields(rule: str) -> dict[str, Any]:
    """Parse a rule in shell syntax."""
    do, _, rest = rule.partition(" ")
    if "'" in rest:
        before, by, after = rest.split("'")
        pairs = [*(before + after).split()]
        return {"do": do, **_read(pairs), "by": by}
    return {"do": do, **_read(rest.split())}


def _read(pairs: list[str]) -> dict[str, Any]:
    found = (pair.split("=") for pair in pairs)
    return {name: int(value) if value.isdecimal() else value for name, value in found}
