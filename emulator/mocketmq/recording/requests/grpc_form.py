"""Converts requests and answers of RocketMQ 5's gRPC protocol to their recorded form, and back."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import json_format

from mocketmq.door_tap import GrpcAnswerMade, GrpcRequestRead
from mocketmq.grpc_proxy.messages import message_class
from mocketmq.message.properties import KEYS, TAGS
from mocketmq.recording.masks import Masks
from mocketmq.recording.requests.request_file import LARGEST

_COMMAND: Final = "TelemetryCommand"
KEPT: Final = frozenset(("body", "userProperties", "keys", "tag"))
"""Fields of messages that a replay does not change."""


def request_form(request: GrpcRequestRead, masks: Masks) -> dict[str, Any]:
    """Return the form of a client's message. Of its headers, only those that identify the client are kept."""
    form = {
        "rpc": request.rpc,
        "stream": request.stream,
        "headers": {**request.headers, "x-mq-language": request.language},
    }
    if len(request.body) > LARGEST:
        return form | {"omitted": f"{len(request.body)} bytes"}
    try:
        return form | {"message": _document(_request_type(request.rpc), request.body, masks)}
    except json_format.SerializeToJsonError as error:  # protobuf's JSON has no times after the year 9999
        return form | {"omitted": str(error)}


def answer_form(rpc: str, answer: GrpcAnswerMade, masks: Masks) -> dict[str, Any]:
    """Return the form of the responses to a request."""
    size = sum(map(len, answer.responses))
    if size > LARGEST:
        return {"omitted": f"{size} bytes"}
    kind = message_class(_COMMAND if rpc == "Telemetry" else f"{rpc}Response")
    return {"messages": [_document(kind, each, masks) for each in answer.responses]}


def message_of(form: Mapping[str, Any], document: Mapping[str, Any]) -> Any:
    """Return the protobuf message of a recorded request with this content."""
    return json_format.ParseDict(dict(document), _request_type(form["rpc"])())


def reply_class(rpc: str) -> Any:
    """Return the protobuf class of an RPC's responses."""
    return message_class(_COMMAND if rpc == "Telemetry" else f"{rpc}Response")


def _request_type(rpc: str) -> Any:
    return message_class(_COMMAND if rpc == "Telemetry" else f"{rpc}Request")


def _document(kind: Any, data: bytes, masks: Masks) -> dict[str, Any]:
    document: dict[str, Any] = json_format.MessageToDict(kind.FromString(data))
    if masks.texts:
        _mask(document, masks)
    return document


def _mask(value: Any, masks: Masks) -> None:
    """Mask every message in a document, in place."""
    if isinstance(value, list):
        for each in value:
            _mask(each, masks)
    elif isinstance(value, dict):
        if "systemProperties" in value:
            _mask_message(value, masks)
        for each in value.values():
            _mask(each, masks)


def _mask_message(message: dict[str, Any], masks: Masks) -> None:
    system = message["systemProperties"]
    texts = dict(message.get("userProperties", {}))
    if "tag" in system:
        texts[TAGS] = system["tag"]
    if "keys" in system:
        texts[KEYS] = " ".join(system["keys"])
    masked = masks.properties(texts)
    if "tag" in system:
        system["tag"] = masked.pop(TAGS)
    if "keys" in system:
        system["keys"] = masked.pop(KEYS).split()
    if "userProperties" in message:
        message["userProperties"] = masked
    if "body" in message:
        plain = system.get("bodyEncoding", "IDENTITY") == "IDENTITY"
        body = base64.b64decode(message["body"])
        hidden = masks.body(body, is_plain=plain)
        if hidden is not body:
            message["body"] = base64.b64encode(hidden).decode()
            system.pop("bodyDigest", None)
            system.pop("bodyEncoding", None)
