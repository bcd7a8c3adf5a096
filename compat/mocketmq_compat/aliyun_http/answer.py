"""Writes responses in the form that all clients of this protocol can read (docs/protocol/aliyun.md §1.13)."""

import os
from collections.abc import Iterable
from typing import Final, NamedTuple

from mocketmq.errors import EmulatorError, ReceiptError
from mocketmq.http_api import web
from mocketmq_compat.aliyun_http.document import document, elements
from mocketmq_compat.aliyun_http.errors import STATUS, code_of, message_of

NAMESPACE: Final = "http://mq.aliyuncs.com/doc/v1/"
ERROR_NAMESPACE: Final = "http://mq.aliyuncs.com/doc/v1"
"""The XML namespace. With a trailing slash, the Java client would not recognize an error (X-6)."""

_VERSION: Final = "2015-06-06"
_MEDIA_TYPE: Final = "text/xml;charset=utf-8"


class XmlAnswer(NamedTuple):
    """A response: a status and an XML document, which is empty for 204."""

    status: int
    body: bytes = b""

    def response(self, request_id: str) -> web.Response:
        """Return the HTTP response: always XML (X-7), with header names in lower case (X-8)."""
        headers = {"x-mq-request-id": request_id, "x-mq-version": _VERSION}
        if self.body:
            headers["Content-Type"] = _MEDIA_TYPE
        return web.Response(status=self.status, body=self.body, headers=headers)


def new_request_id() -> str:
    """Make a request id like the service's: 24 upper-case hex digits."""
    return os.urandom(12).hex().upper()


def failure(error: EmulatorError, request_id: str, host_id: str) -> XmlAnswer:
    """Make an error document with the four elements that clients require, in the service's order."""
    code = code_of(error)
    fields = [("Code", code), ("Message", message_of(error)), ("RequestId", request_id), ("HostId", host_id)]
    return XmlAnswer(STATUS[code], document("Error", ERROR_NAMESPACE, elements(fields)))


def failures(failed: Iterable[tuple[str, ReceiptError]]) -> XmlAnswer:
    """List the receipt handles that could not be settled, with the reasons."""
    inside = "".join(
        nested(
            "Error",
            [("ErrorCode", code_of(error)), ("ErrorMessage", message_of(error)), ("ReceiptHandle", handle)],
        )
        for handle, error in failed
    )
    return XmlAnswer(404, document("Errors", ERROR_NAMESPACE, inside))


def nested(name: str, fields: Iterable[tuple[str, object]]) -> str:
    """Write an element with leaves and no attributes."""
    return f"<{name}>{elements(fields)}</{name}>"
