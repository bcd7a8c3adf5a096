"""gRPC's own status, for what no answer can tell: SDKs repeat a request that fails so."""

from enum import IntEnum


class Status(IntEnum):
    """The statuses that this door uses."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class StatusError(Exception):
    """An RPC ends with this status."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
