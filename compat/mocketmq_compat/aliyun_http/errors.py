"""Errors in this protocol: their codes, HTTP statuses and messages (docs/protocol/aliyun.md §1.12)."""

from collections.abc import Mapping
from typing import Final

from mocketmq.errors import EmulatorError, ReceiptSpentError, RefusedError, wire_codes
from mocketmq.http_api.problem import HttpError

STATUS: Final[Mapping[str, int]] = {
    "AccessDenied": 403,
    "InternalError": 500,
    "InvalidAccessKeyId": 403,
    "InvalidArgument": 400,
    "InvalidAuthorizationHeader": 400,
    "InvalidDateHeader": 400,
    "InvalidDigest": 400,
    "InvalidQueryString": 400,
    "InvalidRequestURL": 400,
    "MalformedXML": 400,
    "MessageNotExist": 404,
    "MissingAuthorizationHeader": 400,
    "MissingDateHeader": 400,
    "MissingReceiptHandle": 400,
    "QpsLimitExceeded": 400,
    "ReceiptHandleError": 404,
    "SignatureDoesNotMatch": 403,
    "SubscriptionNotExist": 404,
    "TimeExpired": 408,
    "TopicNotExist": 404,
}
"""The HTTP status of every code."""

_WORDS: Final = {
    "MessageNotExist": "Message not exist.",
    "MissingReceiptHandle": "ReceiptHandle is required.",
    "ReceiptHandleError": "The receipt handle you provide is not valid.",
    "TopicNotExist": "The topic you provided does not exist.",
}
"""The service's own error messages, as far as they are known."""


class AliyunError(RefusedError):
    """An error that only this protocol has. ``code`` is a key of ``STATUS``."""

    def __init__(self, code: str, reason: str = "") -> None:
        super().__init__(reason)
        self.code = code


def code_of(error: EmulatorError) -> str:
    """Return the error's code. A body that the HTTP layer refuses is an invalid argument here."""
    if isinstance(error, AliyunError):
        return error.code
    return "InvalidArgument" if isinstance(error, HttpError) else wire_codes(error).aliyun


def message_of(error: EmulatorError) -> str:
    """Return the service's message if it is known, otherwise the error's own; for an expired handle, both."""
    words, reason = _WORDS.get(code_of(error)), str(error)
    return f"{words} ({reason})" if isinstance(error, ReceiptSpentError) else words or reason
