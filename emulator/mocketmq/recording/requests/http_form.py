"""Requests and answers of the JSON API and of Aliyun's protocol as they are recorded."""

import base64
import binascii
import html
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec

from mocketmq.door_tap import HttpAnswerMade, HttpRequestRead
from mocketmq.message.properties import KEYS, TAGS
from mocketmq.recording.masks import STARS, Masks
from mocketmq.recording.recorded_message import OF_BROKERS
from mocketmq.recording.requests.credentials import path_without_credentials, text_without_credentials
from mocketmq.recording.requests.request_file import LARGEST

_TEXTS: Final = ("application/json", "application/problem+json", "text/xml", "application/xml")
"""Media types of recorded bodies. Snapshots and reports are left out: they hold all messages."""
_ELEMENT: Final = re.compile("<(MessageBody|MessageTag|MessageKey|Properties)>(.*?)</", re.DOTALL)
_OF_QUERY: Final = {"key": KEYS, "keys": KEYS, "tag": TAGS}
_CONTENT: Final = re.compile("(<MessageBody>.*?</MessageBody>)", re.DOTALL)
_KEPT: Final = frozenset(("body", "body_base64", "properties", "keys", "tag"))
_CONTENT_FIELDS: Final = frozenset(("body", "body_json", "properties", "json_path"))
"""Fields with content of messages, in which an application may name anything."""
_DEEPEST: Final = 64


def request_form(request: HttpRequestRead, masks: Masks) -> dict[str, Any]:
    """The form of a client's request, without headers but the type of its body."""
    path = path_without_credentials(request.path)
    return {
        "method": request.method,
        "path": _masked_path(path, masks) if masks.texts else path,
        **_body(request.media_type, request.body, masks, is_request=True),
    }


def answer_form(answer: HttpAnswerMade, masks: Masks) -> dict[str, Any]:
    """The form of the answer."""
    if answer.body is None:
        return {"status": answer.status, "omitted": "a stream"}
    return {
        "status": answer.status,
        **_body(answer.media_type, answer.body, masks, is_request=False),
    }


def door_of(request: HttpRequestRead) -> str:
    """The door of a request."""
    return "json" if request.path.startswith("/v1/") else "aliyun"


def object_in(form: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object in the body of a request or an answer; empty if there is none."""
    try:
        found = msgspec.json.decode(str(form.get("body", "")))
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _body(media_type: str, body: bytes, masks: Masks, *, is_request: bool) -> dict[str, str]:
    if not body:
        return {}
    # Clients may send JSON and XML with any media type or none, so a request is judged by what it is.
    if len(body) > LARGEST or (not is_request and media_type not in _TEXTS):
        return {"omitted": f"{len(body)} bytes"}
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {"omitted": f"{len(body)} bytes"}
    if masks.texts:
        text = _masked_xml(text, masks) if text.lstrip().startswith("<") else _masked_json(text, masks)
    if not text.lstrip().startswith("<"):  # Aliyun's XML has no credentials, only messages
        text = text_without_credentials(text, _CONTENT_FIELDS)
    return {"media_type": media_type, "body": text}


def _masked_path(path: str, masks: Masks) -> str:
    before, mark, query = path.partition("?")
    parts = []
    for name, equals, value in (part.partition("=") for part in query.split("&")):
        hidden = value
        if own := _OF_QUERY.get(name):
            hidden = quote(masks.properties({own: unquote(value)}, OF_BROKERS)[own])
        parts.append(name + equals + hidden)
    return before + mark + "&".join(parts)


def _masked_xml(text: str, masks: Masks) -> str:
    def masked(found: re.Match[str]) -> str:
        name, content = found[1], html.unescape(found[2])
        match name:
            case "MessageBody":
                content = masks.body(content.encode(), is_plain=True).decode()
            case "Properties":
                pairs = {pair[0]: pair[2] for each in content.split("|") if (pair := each.partition(":"))[1]}
                content = "".join(
                    f"{key}:{value}|" for key, value in masks.properties(pairs, OF_BROKERS).items()
                )
            case _:
                own = TAGS if name == "MessageTag" else KEYS
                content = masks.properties({own: content}, OF_BROKERS)[own]
        return f"<{name}>{html.escape(content, quote=False)}</"

    return _ELEMENT.sub(masked, text)


def _masked_json(text: str, masks: Masks) -> str:
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return STARS
    return msgspec.json.encode(_masked(document, masks, 0)).decode()


def _masked(value: Any, masks: Masks, depth: int) -> Any:
    """Mask every message in a document: each object with fields of a message."""
    if depth > _DEEPEST:
        return STARS
    if isinstance(value, list):
        return [_masked(each, masks, depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: _masked(each, masks, depth + 1) for name, each in value.items()}
    if isinstance(body := found.get("body"), str):
        found["body"] = masks.body(body.encode(), is_plain=True).decode()
    elif isinstance(body, dict | list):
        found["body"] = msgspec.json.decode(masks.body(msgspec.json.encode(body), is_plain=True))
    if isinstance(packed := found.get("body_base64"), str):
        try:
            plain = base64.b64decode(packed)
        except binascii.Error:
            plain = packed.encode()
        found["body_base64"] = base64.b64encode(masks.body(plain, is_plain=True)).decode()
    _mask_properties(found, masks)
    return found


def _mask_properties(found: dict[str, Any], masks: Masks) -> None:
    """Mask tag, keys and properties of an object, if it has any."""
    given = found.get("properties")
    texts = (
        {name: text for name, text in given.items() if isinstance(text, str)}
        if isinstance(given, dict)
        else {}
    )
    if isinstance(tag := found.get("tag"), str):
        texts[TAGS] = tag
    keys = found.get("keys")
    if isinstance(keys, list):
        texts[KEYS] = " ".join(map(str, keys))
    if not texts:
        return
    masked = masks.properties(texts, OF_BROKERS)
    if isinstance(tag, str):
        found["tag"] = masked[TAGS]
    if isinstance(keys, list):
        found["keys"] = masked[KEYS].split()
    if isinstance(given, dict):
        found["properties"] = {name: masked.get(name, text) for name, text in given.items()}


def changed_body(text: str, change: Callable[[str, str], str]) -> str:
    """A recorded body with each value as ``change`` returns it, except the content of messages."""
    if text.lstrip().startswith("<"):
        parts = _CONTENT.split(text)
        return "".join(part if number % 2 else change(part, "") for number, part in enumerate(parts))
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    found = changed(document, change)
    return text if found == document else msgspec.json.encode(found).decode()


def changed(
    value: Any, change: Callable[[str, str], str], kept: frozenset[str] = _KEPT, field: str = ""
) -> Any:
    """A document with each text and number as ``change`` returns it, except the fields in ``kept``."""
    match value:
        case str():
            return change(value, field)
        case bool():
            return value
        case int():
            return int(change(str(value), field)) if value > 0 else value
        case list():
            return [changed(each, change, kept, field) for each in value]
        case dict():
            return {
                name: each if name in kept else changed(each, change, kept, name)
                for name, each in value.items()
            }
    return value
