"""Names of errors in Aliyun's protocol."""

import pytest

from mocketmq import errors
from mocketmq.errors import (
    EmulatorError,
    GroupNotFoundError,
    IllegalMessageError,
    InvalidArgumentError,
    NoPermissionError,
    ReceiptError,
    ReceiptSpentError,
    StoreBusyError,
    StoreUnavailableError,
    TopicNotFoundError,
    UnauthorizedError,
)
from mocketmq.http_api.bodies import BodyTooLargeError
from mocketmq_compat.aliyun_http.answer import failure, failures
from mocketmq_compat.aliyun_http.errors import STATUS, AliyunError, code_of, message_of

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, EmulatorError)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_has_a_code_with_a_status(kind: type[EmulatorError]) -> None:
    status = STATUS[code_of(kind.__new__(kind))]
    is_refusal = issubclass(kind, errors.RefusedError | StoreBusyError)
    assert status // 100 == (4 if is_refusal else 5)


@pytest.mark.parametrize(
    ("error", "code", "status", "message"),
    [
        (AliyunError("MessageNotExist"), "MessageNotExist", 404, "Message not exist."),
        (AliyunError("MalformedXML", "no XML"), "MalformedXML", 400, "no XML"),
        (TopicNotFoundError("x"), "TopicNotExist", 404, "The topic you provided does not exist."),
        (GroupNotFoundError("no group x"), "SubscriptionNotExist", 404, "no group x"),
        (InvalidArgumentError("a", 1, "2"), "InvalidArgument", 400, "a is 1; allowed: 2"),
        (IllegalMessageError("body", "too large"), "InvalidArgument", 400, "too large"),
        (NoPermissionError("not you"), "AccessDenied", 403, "not you"),
        (UnauthorizedError("a token"), "AccessDenied", 403, "a token"),
        (ReceiptError("x"), "ReceiptHandleError", 404, "The receipt handle you provide is not valid."),
        (ReceiptSpentError("it expired"), "MessageNotExist", 404, "Message not exist. (it expired)"),
        (StoreBusyError("busy"), "QpsLimitExceeded", 400, "busy"),
        (StoreUnavailableError("disk"), "InternalError", 500, "disk"),
    ],
)
def test_errors_have_code_status_and_text(error: EmulatorError, code: str, status: int, message: str) -> None:
    assert (code_of(error), message_of(error)) == (code, message)
    answer = failure(error, "5DF0", "http://h:1")
    assert answer.status == status
    assert answer.body.decode() == (
        '<?xml version="1.0" encoding="utf-8"?>\n<Error xmlns="http://mq.aliyuncs.com/doc/v1">'
        f"<Code>{code}</Code><Message>{message}</Message>"
        "<RequestId>5DF0</RequestId><HostId>http://h:1</HostId></Error>"
    )


def test_a_body_that_is_too_large_is_a_wrong_argument() -> None:
    assert code_of(BodyTooLargeError(5)) == "InvalidArgument"


def test_failed_handles_are_listed() -> None:
    answer = failures([("a<b", ReceiptError("x")), ("c", ReceiptSpentError("gone"))])
    assert answer.status == 404
    assert answer.body.decode().partition("\n")[2] == (
        '<Errors xmlns="http://mq.aliyuncs.com/doc/v1">'
        "<Error><ErrorCode>ReceiptHandleError</ErrorCode>"
        "<ErrorMessage>The receipt handle you provide is not valid.</ErrorMessage>"
        "<ReceiptHandle>a&lt;b</ReceiptHandle></Error>"
        "<Error><ErrorCode>MessageNotExist</ErrorCode><ErrorMessage>Message not exist. (gone)</ErrorMessage>"
        "<ReceiptHandle>c</ReceiptHandle></Error></Errors>"
    )
