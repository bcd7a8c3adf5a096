"""Converts requests and answers of the JSON API and of Aliyun's protocol to their recorded form."""

import base64
import binascii
import html
import re
import string
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec

from mocketmq.door_tap import HttpAnswerMade, HttpRequestRead
from mocketmq.message.properties import KEYS, TAGS
from mocketmq.recording.masks import STARS, Masks
from mocketmq.recording.recorded_message import NOT_OF_SENDERS
from mocketmq.recording.requests.credentials import path_without_credentials, text_without_credentials
from mocketmq.recording.requests.request_file import LARGEST
from mocketmq.seed_file import changed_times

_TEXTS: Final = ("application/json", "application/problem+json", "text/xml", "application/xml")
"""Media types of recorded bodies. Snapshots and reports are left out, because they contain all messages."""
_OPENING: Final = r"<(?:[^<>\s/:]+:)?(MessageBody|MessageTag|MessageKey|Properties)(?![\w.-])"
_ELEMENT: Final = re.compile(rf"({_OPENING}(?:\s[^<>]*)?>)([^<]*)</")
_SENTENCES: Final = ("text", "explanation", "differences")
"""Fields of answers with sentences that repeat keys and parts of bodies."""
_OF_QUERY: Final = {"key": KEYS, "keys": KEYS, "tag": TAGS}
_CONTENT: Final = re.compile(r"<(MessageBody|MessageTag|MessageKey|Properties)>(.*?)</\1>", re.DOTALL)
_KEPT: Final = frozenset(("body", "body_base64", "body_json", "json_path", "properties", "keys", "tag"))
_CONTENT_FIELDS: Final = frozenset(("body", "body_json", "properties", "json_path"))
"""Fields with content of messages, in which an application may use any name."""
_DEEPEST: Final = 64


def request_form(request: HttpRequestRead, masks: Masks) -> dict[str, Any]:
    """Return the form of a client's request. Of its headers, only the body's type is kept."""
    path = path_without_credentials(_ascii(request.path))
    return {
        "method": request.method,
        "path": _masked_path(path, masks) if masks.texts else path,
        **_body(request.media_type, request.body, masks, is_request=True),
    }


def _ascii(path: str) -> str:
    """Return the path with all non-ASCII bytes quoted, which may not be UTF-8 either."""
    return quote(path.encode(errors="surrogateescape"), safe=string.punctuation)


def answer_form(answer: HttpAnswerMade, masks: Masks) -> dict[str, Any]:
    """Return the form of the answer."""
    if answer.body is None:
        return {"status": answer.status, "omitted": "a stream"}
    return {
        "status": answer.status,
        **_body(answer.media_type, answer.body, masks, is_request=False),
    }


def door_of(request: HttpRequestRead) -> str:
    """Return the door of a request."""
    return "json" if request.path.startswith("/v1/") else "aliyun"


def object_in(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object in the body of a request or an answer; empty if there is none."""
    try:
        found = msgspec.json.decode(str(form.get("body", "")))
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _body(media_type: str, body: bytes, masks: Masks, *, is_request: bool) -> dict[str, str]:
    if not body:
        return {}
    # Clients may send JSON and XML with any media type or none, so the content of the body decides.
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
    return {"media_type": media_type.encode(errors="replace").decode(), "body": text}


def _masked_path(path: str, masks: Masks) -> str:
    before, mark, query = path.partition("?")
    parts = []
    for name, equals, value in (part.partition("=") for part in query.split("&")):
        hidden = value
        if own := _OF_QUERY.get(name):
            hidden = quote(masks.properties({own: unquote(value)})[own])
        elif name == "text":  # the text of a body
            hidden = STARS
        parts.append(name + equals + hidden)
    return before + mark + "&".join(parts)


def _masked_xml(text: str, masks: Masks) -> str:
    def masked(found: re.Match[str]) -> str:
        opening, name, content = found[1], found[2], html.unescape(found[3])
        match name:
            case "MessageBody":
                content = masks.body(content.encode(), is_plain=True).decode()
            case "Properties":
                pairs = {pair[0]: pair[2] for each in content.split("|") if (pair := each.partition(":"))[1]}
                content = "".join(f"{key}:{value}|" for key, value in masks.properties(pairs).items())
            case _:
                own = TAGS if name == "MessageTag" else KEYS
                content = masks.properties({own: content})[own]
        return f"{opening}{html.escape(content, quote=False)}</"

    hidden, count = _ELEMENT.subn(masked, text)
    # If an element was not matched, for example because of CDATA, mask the whole text.
    return hidden if count == len(re.findall(_OPENING, text)) else STARS


def _masked_json(text: str, masks: Masks) -> str:
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return STARS
    return msgspec.json.encode(_masked(document, masks, 0)).decode()


def _masked(value: Any, masks: Masks, depth: int) -> Any:
    """Mask every object in a document that has fields of a message."""
    if depth > _DEEPEST:
        return STARS
    if isinstance(value, list):
        return [_masked(each, masks, depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: _masked(each, masks, depth + 1) for name, each in value.items()}
    for name in ("body", "preview"):
        if isinstance(text := found.get(name), str):
            found[name] = masks.body(text.encode(), is_plain=True).decode()
    for name in ("body", "body_json"):
        if (content := found.get(name)) is not None and not (name == "body" and isinstance(content, str)):
            found[name] = _masked_value(content, masks)
    if isinstance(values := found.get("json_path"), dict):
        found["json_path"] = {path: masks.value_in_body(path, each) for path, each in values.items()}
    for name in _SENTENCES:
        sentences = found.get(name)
        if isinstance(sentences, str):
            found[name] = STARS
        elif isinstance(sentences, list):
            found[name] = [STARS if isinstance(each, str) else each for each in sentences]
    if isinstance(key := found.get("key"), str):
        found["key"] = masks.properties({KEYS: key})[KEYS]
    if isinstance(packed := found.get("body_base64"), str):
        try:
            plain = base64.b64decode(packed)
        except binascii.Error:
            plain = packed.encode()
        found["body_base64"] = base64.b64encode(masks.body(plain, is_plain=True)).decode()
    _mask_properties(found, masks)
    return found


def _masked_value(content: Any, masks: Masks) -> Any:
    """Mask a body that is a JSON value."""
    hidden = masks.body(msgspec.json.encode(content), is_plain=True)
    try:
        return msgspec.json.decode(hidden)
    except msgspec.DecodeError:
        return hidden.decode()


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
    masked = masks.properties(texts)
    if isinstance(tag, str):
        found["tag"] = masked[TAGS]
    if isinstance(keys, list):
        found["keys"] = masked[KEYS].split()
    if isinstance(given, dict):
        found["properties"] = {name: masked.get(name, text) for name, text in given.items()}


def changed_query(query: str, change: Callable[[str, str], str]) -> str:
    """Return a recorded query with each value replaced by the result of ``change``."""
    pairs = [part.partition("=") for part in query.split("&")]
    return "&".join(name + equals + change(value, name) for name, equals, value in pairs)


def changed_body(text: str, change: Callable[[str, str], str]) -> str:
    """Return a recorded body with each value replaced by the result of ``change``, except message content."""
    if text.lstrip().startswith("<"):
        return _changed_xml(text, change)
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    found = changed(document, change)
    return text if found == document else msgspec.json.encode(found).decode()


def _changed_xml(text: str, change: Callable[[str, str], str]) -> str:
    parts, end = [], 0
    for found in _CONTENT.finditer(text):
        content = found[2]
        if found[1] == "Properties":
            content = changed_properties(content, ":", "|", change)
        parts += [change(text[end : found.start()], ""), f"<{found[1]}>{content}</{found[1]}>"]
        end = found.end()
    return "".join((*parts, change(text[end:], "")))


def changed_properties(text: str, equals: str, end: str, change: Callable[[str, str], str]) -> str:
    """Return a message's properties, with the values that its sender did not set changed.

    ``equals`` is between name and value, and ``end`` after each pair.
    """
    pairs = [pair.partition(equals) for pair in text.split(end)]
    return end.join(
        name + mark + (change(value, name) if name in NOT_OF_SENDERS else value)
        for name, mark, value in pairs
    )


def changed(
    value: Any, change: Callable[[str, str], str], kept: frozenset[str] = _KEPT, field: str = ""
) -> Any:
    """Return a document with texts and numbers replaced by ``change``, except in fields of ``kept``."""
    match value:
        case str():
            return change(value, field)
        case bool():
            return value
        case int():
            return int(change(str(value), field)) if value > 0 else value
        case list():
            return [changed(each, change, kept, field) for each in value]
        case {"text": str(text), "format": ("toml" | "jsonl" | "csv") as file_format} if kept is _KEPT:
            return {**value, "text": changed_times(text, file_format, change)}
        case dict():
            return {
                name: each if name in kept else changed(each, change, kept, name)
                for name, each in value.items()
            }
    return value
