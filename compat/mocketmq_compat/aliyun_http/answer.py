"""Answers, as every client of this protocol can read them (Aliyun sheet, 1.9, 1.12 and 1.13)."""

import os
from collections.abc import Iterable
from typing import Final, NamedTuple

from aiohttp import web
from mocketmq.errors import EmulatorError, ReceiptError

from mocketmq_compat.aliyun_http.document import document, elements
from mocketmq_compat.aliyun_http.errors import STATUS, code_of, message_of

NAMESPACE: Final = "http://mq.aliyuncs.com/doc/v1/"
ERROR_NAMESPACE: Final = "http://mq.aliyuncs.com/doc/v1"
"""Without the slash: the Java client takes no other in an error (X-6)."""

_VERSION: Final = "2015-06-06"
_MEDIA_TYPE: Final = "text/xml;charset=utf-8"


class Answer(NamedTuple):
    """A status and a document; none with 204."""

    status: int
    body: bytes = b""

    def response(self, request_id: str) -> web.Response:
        """As HTTP: always XML (X-7), and names of headers in lower case (X-8)."""
        headers = {"x-mq-request-id": request_id, "x-mq-version": _VERSION}
        if self.body:
            headers["Content-Type"] = _MEDIA_TYPE
        return web.Response(status=self.status, body=self.body, headers=headers)


def new_request_id() -> str:
    """24 upper-case hex digits, as the service's."""
    return os.urandom(12).hex().upper()


def failure(error: EmulatorError, request_id: str, host_id: str) -> Answer:
    """One error with the four elements that clients insist on, in the service's order."""
    code = code_of(error)
    fields = [("Code", code), ("Message", message_of(error)), ("RequestId", request_id), ("HostId", host_id)]
    return Answer(STATUS[code], document("Error", ERROR_NAMESPACE, elements(fields)))


def failures(failed: Iterable[tuple[str, ReceiptError]]) -> Answer:
    """The receipt handles that could not be settled, and why."""
    inside = "".join(
        nested(
            "Error",
            [("ErrorCode", code_of(error)), ("ErrorMessage", message_of(error)), ("ReceiptHandle", handle)],
        )
        for handle, error in failed
    )
    return Answer(404, document("Errors", ERROR_NAMESPACE, inside))


def nested(name: str, fields: Iterable[tuple[str, object]]) -> str:
    """An element without attributes that holds leaves."""
    return f"<{name}>{elements(fields)}</{name}>"
