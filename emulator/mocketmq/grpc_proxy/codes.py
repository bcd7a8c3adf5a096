"""Codes in the ``status`` of responses, and gRPC statuses for RPCs that fail without a response.

SDKs choose their exception by the code, never by the text. SDKs retry requests that fail with a gRPC status.
"""

from enum import IntEnum
from typing import Any

from mocketmq.errors import EmulatorError, RefusedError, wire_codes


class Code(IntEnum):
    """The codes that exist only in this protocol; the broker's errors define the others."""

    OK = 20_000
    MULTIPLE_RESULTS = 30_000
    BAD_REQUEST = 40_000
    ILLEGAL_TOPIC = 40_002
    ILLEGAL_CONSUMER_GROUP = 40_003
    ILLEGAL_MESSAGE_TAG = 40_004
    ILLEGAL_MESSAGE_KEY = 40_005
    ILLEGAL_MESSAGE_GROUP = 40_006
    ILLEGAL_MESSAGE_PROPERTY_KEY = 40_007
    INVALID_TRANSACTION_ID = 40_008
    ILLEGAL_MESSAGE_ID = 40_009
    ILLEGAL_FILTER_EXPRESSION = 40_010
    ILLEGAL_INVISIBLE_TIME = 40_011
    ILLEGAL_DELIVERY_TIME = 40_012
    INVALID_RECEIPT_HANDLE = 40_013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40_014
    MESSAGE_CORRUPTED = 40_016
    CLIENT_ID_REQUIRED = 40_017
    ILLEGAL_LITE_TOPIC = 40_020
    FORBIDDEN = 40_300
    MESSAGE_NOT_FOUND = 40_401
    MESSAGE_BODY_TOO_LARGE = 41_301
    MESSAGE_BODY_EMPTY = 41_302
    TOO_MANY_REQUESTS = 42_900
    MESSAGE_PROPERTIES_TOO_LARGE = 43_101
    INTERNAL_SERVER_ERROR = 50_001
    FAILED_TO_CONSUME_MESSAGE = 60_000


class GrpcError(RefusedError):
    """A refusal with a code of this protocol."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


def code_of(error: EmulatorError) -> int:
    """Return the code that clients get for the error."""
    return error.code if isinstance(error, GrpcError) else wire_codes(error).grpc


def set_status(answer: Any, code: int = Code.OK, message: str = "OK") -> Any:
    """Set and return the status of a response, or of an entry in one."""
    answer.status.code, answer.status.message = code, message
    return answer


def common_code(codes: list[int]) -> int:
    """Return the status of a response whose entries have these codes."""
    return codes[0] if len(set(codes)) == 1 else Code.MULTIPLE_RESULTS


def name_of(code: int) -> str:
    """Return a code's name, which the proxy sends as the text of a response with entries."""
    return Code(code).name if code in set(Code) else str(code)


class Status(IntEnum):
    """The gRPC statuses that this server uses."""

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
    """Ends an RPC with this gRPC status."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
