"""Converts requests and answers of RocketMQ's TCP protocol to their recorded form, and back."""

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final

from mocketmq.errors import IllegalMessageError
from mocketmq.message.body import COMPRESSED_FLAG, unpacked
from mocketmq.message.names import is_trace_topic
from mocketmq.message.properties import KEYS
from mocketmq.recording.masks import STARS, Masks
from mocketmq.recording.recorded_message import INFLATED
from mocketmq.recording.requests.credentials import text_without_credentials, without_credentials
from mocketmq.recording.requests.http_form import changed_properties
from mocketmq.recording.requests.request_file import LARGEST
from mocketmq.remoting.wire.batch import BatchEntry, decode_batch, encode_batch
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.record import WireRecord, decode_properties, decode_records

_SENDS: Final = {
    RequestCode.SEND_MESSAGE: ("properties", "sysFlag"),
    RequestCode.SEND_REPLY_MESSAGE: ("properties", "sysFlag"),
    RequestCode.SEND_MESSAGE_V2: ("i", "f"),
    RequestCode.SEND_BATCH_MESSAGE: ("i", "f"),
    RequestCode.SEND_REPLY_MESSAGE_V2: ("i", "f"),
}
"""Requests whose body is a message's, with the names of the fields for its properties and flags."""
_READS: Final = {
    *(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE, RequestCode.POP_MESSAGE),
    *(RequestCode.PEEK_MESSAGE, RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID),
}
"""Requests whose answers have records of messages."""


def name_of(code: int) -> str:
    """Return the name of a request code."""
    try:
        return RequestCode(code).name
    except ValueError:
        return f"code {code}"


def body_form(body: bytes) -> dict[str, str]:
    """Return a body as text or, if it is not UTF-8, in base64; no field if there is no body."""
    if not body:
        return {}
    if len(body) > LARGEST:
        return {"omitted": f"{len(body)} bytes"}
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def body_of(form: Mapping[str, Any]) -> bytes:
    """Return the body of a recorded request or answer."""
    if "body_base64" in form:
        return base64.b64decode(form["body_base64"])
    return str(form.get("body", "")).encode()


def request_form(command: Command, masks: Masks) -> dict[str, Any]:
    """Return the form of a client's request."""
    ext, body = without_credentials(command.ext), command.body
    if command.code in _SENDS:
        if masks.texts:
            ext, body = _masked_send(command.code, ext, body, masks)
        content = body_form(body)
    else:
        if masks.texts and "key" in ext and "_UNIQUE_KEY_QUERY" not in ext:
            ext["key"] = masks.properties({KEYS: ext["key"]})[KEYS]
        content = _plain_body(body)
    return {
        "code": command.code,
        "name": name_of(command.code),
        "flag": command.flag,
        "language": command.language,
        "version": command.version,
        "serialization": command.serialization,
        "ext": ext,
        **content,
    }


def answer_form(code: int, command: Command, masks: Masks) -> dict[str, Any]:
    """Return the form of the answer to a request with this code."""
    form: dict[str, Any] = {"code": command.code, "ext": without_credentials(command.ext)}
    if command.remark:
        form["remark"] = command.remark
    if code in _READS and command.body and len(command.body) <= LARGEST:
        try:
            return form | {"messages": [_record_form(each, masks) for each in decode_records(command.body)]}
        except IllegalMessageError:
            return form | {"omitted": f"{len(command.body)} bytes"}
    return form | _plain_body(command.body)


def command_of(form: Mapping[str, Any], opaque: int, change: Callable[[str, str], str]) -> Command:
    """Rebuild a recorded request with the number ``opaque``, and each value replaced by ``change``.

    The content of messages does not change.
    """
    in_properties = _SENDS[form["code"]][0] if form["code"] in _SENDS else ""
    ext = {
        name: changed_properties(value, "\x01", "\x02", change)
        if name == in_properties
        else change(value, name)
        for name, value in form["ext"].items()
    }
    body = body_of(form)
    if body and form["code"] not in _SENDS and "body" in form:
        body = change(body.decode(), "").encode()
    return Command(
        code=form["code"],
        opaque=opaque,
        flag=0,  # even oneway requests, because a response shows when they are done
        language=form["language"],
        version=form["version"],
        serialization=form["serialization"],
        ext=ext,
        body=body,
    )


def _plain_body(body: bytes) -> dict[str, str]:
    form = body_form(body)
    if "body" in form:
        form["body"] = text_without_credentials(form["body"])
    return form


def _masked_send(code: int, ext: dict[str, str], body: bytes, masks: Masks) -> tuple[dict[str, str], bytes]:
    in_properties, in_flags = _SENDS[RequestCode(code)]
    if code == RequestCode.SEND_BATCH_MESSAGE or ext.get("m", ext.get("batch")) == "true":
        try:
            entries = [
                BatchEntry(each.flag, masks.body(each.body, is_plain=True), _masked(each.properties, masks))
                for each in decode_batch(body)
            ]
        except IllegalMessageError:
            return ext, STARS.encode()
        return ext, encode_batch(entries)
    if in_properties in ext:
        ext[in_properties] = _masked(ext[in_properties], masks)
    text = ext.get(in_flags, "0")
    flags = int(text) if text.isdecimal() and len(text) < 10 else 0
    content, compression = unpacked(body, flags, INFLATED)
    if is_trace_topic(ext.get("topic", ext.get("b", ""))):
        hidden = STARS.encode()  # trace messages contain keys and tags of other messages
    else:
        hidden = masks.body(content, is_plain=compression is None)
    if hidden is content:
        return ext, body
    return ext | {in_flags: str(flags & ~COMPRESSED_FLAG)}, hidden


def _masked(text: str, masks: Masks) -> str:
    found = masks.properties(decode_properties(text))
    return "".join(f"{name}\x01{value}\x02" for name, value in found.items())


def _record_form(record: WireRecord, masks: Masks) -> dict[str, Any]:
    form: dict[str, Any] = record._asdict()
    del form["body_crc"], form["body"]
    form["properties"] = masks.properties(decode_properties(record.properties))
    if masks.texts and is_trace_topic(record.topic):
        return form | {"body": STARS}
    content, compression = unpacked(record.body, record.sys_flag, INFLATED)
    return form | body_form(masks.body(content, is_plain=compression is None))
