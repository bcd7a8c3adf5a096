"""Describes the differences between a recorded answer and another broker's answer."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mocketmq.errors import InvalidArgumentError, shorten
from mocketmq.recording.masks import STARS
from mocketmq.recording.recorded_message import NOT_OF_SENDERS
from mocketmq.recording.requests.value_map import ValueMap, plain_name
from mocketmq.remoting.wire import fastjson

_VOLATILE: Final = frozenset(
    (
        *("dataversion", "version", "serverversion", "uptimems", "uptimeus", "pid", "tookms", "tookus"),
        *("traceparent", "hostid", "aheadms", "lastupdatetimestamp", "run", "savedms"),
    )
)
"""Fields that describe the broker's process rather than its state, in the form of ``plain_name``."""
_PROPERTIES: Final = (("properties",), ("userProperties",))
_CONTENT: Final = frozenset(
    ("body", "bodybase64", "preview", "tag", "keys", "messagebody", "messagetag", "messagekey")
)
"""Fields with content of messages. A replay sends the content unchanged, so it must return unchanged."""
_ANSWERED_AT: Final = ("messages", "deliveryTimestamp")
"""Path of the wall-clock time in the answer to a gRPC receive, without the response's number."""
_OFFSETS: Final = frozenset(
    (
        *("queueoffset", "nextbeginoffset", "maxoffset", "offset", "commitoffset"),
        *("consumeroffset", "brokeroffset", "nextoffset", "end"),
    )
)
_LOG_OFFSETS: Final = frozenset(("logoffset", "commitlogoffset", "preparedoffset", "parkedoffset"))
"""Log offsets, which another broker assigns differently."""
_ABSENT: Final = object()
_LONGEST: Final = 80
_XML: Final = re.compile(r"<(/?)(\w+)[^>]*>|<[?][^>]*>|([^<]+)")


class AnswerDifference(NamedTuple):
    """A difference. ``path`` is its place in the answer, without the indexes of list entries."""

    path: str
    text: str


def differences(
    recorded: Mapping[str, Any], found: Mapping[str, Any], values: ValueMap, owner: str = ""
) -> list[AnswerDifference]:
    """Return all differences of an answer. ``owner`` is the queue of its offsets, if it is one queue."""
    return [
        AnswerDifference(".".join(step for step in path if not step.isdecimal()), text)
        for path, text in _parted((), recorded, found, values, owner)
    ]


def document_in(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form of an answer, with its body parsed if it is XML, or JSON of any dialect."""
    body = form.get("body")
    document = _document(body) if isinstance(body, str) else None
    if not isinstance(document, dict | list):
        return dict(form)
    return {name: value for name, value in form.items() if name != "body"} | {"body": document}


def _document(text: str) -> Any:
    if text.startswith("<"):
        return _elements(text)
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return fastjson.loads(text.encode())
    except InvalidArgumentError:
        return None


def _elements(text: str) -> dict[str, Any]:
    """Return the elements of XML without attributes, by name: lists of texts or of further elements."""
    around: list[dict[str, Any]] = [{}]
    for closes, name, content in _XML.findall(text):
        if content:
            around[-1][""] = html.unescape(content)
        elif name and not closes:
            around.append({})
        elif name and len(around) > 1:
            element = around.pop()
            only_text = element.pop("", "")
            around[-1].setdefault(name, []).append(element or only_text)
    return around[0]


_Found = Iterator[tuple[tuple[str, ...], str]]


def _parted(path: tuple[str, ...], recorded: Any, found: Any, values: ValueMap, owner: str) -> _Found:
    names = [step for step in path if not step.isdecimal()]
    name = names[-1] if names else ""
    if _is_content(path, names):
        yield from _content(path, recorded, found)
        return
    if plain_name(name) in _VOLATILE or path[::2] == _ANSWERED_AT:
        return
    if isinstance(recorded, dict) and isinstance(found, dict):
        own = _owner_in(recorded, owner)
        for key in sorted(recorded.keys() | found.keys(), key=str):
            one, other = recorded.get(key, _ABSENT), found.get(key, _ABSENT)
            yield from _parted((*path, str(key)), one, other, values, own)
    elif isinstance(recorded, list) and isinstance(found, list):
        yield from _lists(path, recorded, found, values, owner)
    elif not _is_same(name, recorded, found, values, owner):
        yield path, _sentence(path, recorded, found)


def _is_content(path: tuple[str, ...], names: Sequence[str]) -> bool:
    """Whether a value comes from an application. The answer's own body comes from the broker."""
    if path[-2:-1] in _PROPERTIES:
        return names[-1] not in NOT_OF_SENDERS
    return len(names) > 1 and plain_name(names[-1]) in _CONTENT


def _content(path: tuple[str, ...], recorded: Any, found: Any) -> _Found:
    if isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        for number, (one, other) in enumerate(zip(recorded, found, strict=True)):
            yield from _content((*path, str(number)), one, other)
    elif recorded != found and not _is_masked(recorded, found):
        yield path, _sentence(path, recorded, found)


def _lists(
    path: tuple[str, ...], recorded: Sequence[Any], found: Sequence[Any], values: ValueMap, owner: str
) -> _Found:
    if len(recorded) != len(found):
        yield path, f"{_place(path)} has {len(found)} entries, was {len(recorded)}"
        return
    are_scalars = all(isinstance(each, str | int) for each in (*recorded, *found))
    if are_scalars and sorted(map(str, recorded)) == sorted(map(str, found)):
        return  # lists of scalars may differ in their order
    for number, (one, other) in enumerate(zip(recorded, found, strict=True)):
        yield from _parted((*path, str(number)), one, other, values, owner)


def _is_same(name: str, recorded: Any, found: Any, values: ValueMap, owner: str) -> bool:
    if recorded is _ABSENT or found is _ABSENT:
        return False
    if _is_masked(recorded, found):
        return True
    plain = plain_name(name)
    if plain in _LOG_OFFSETS:
        return values.is_same_place(str(recorded), str(found))
    if "/" in owner and plain in _OFFSETS:
        return values.is_same_offset(owner, str(recorded), str(found))
    return values.is_same(name, recorded, found)


def _is_masked(recorded: Any, found: Any) -> bool:
    """Whether a text was masked, which makes a comparison impossible."""
    return bool(recorded == STARS) and isinstance(found, str)


def _owner_in(document: Mapping[str, Any], around: str) -> str:
    """Return the document's queue or topic, as ``topic/queue`` or ``topic``; by default ``around``."""
    topic = document.get("topic", document.get("name") if "queues" in document else None)
    if isinstance(topic, dict):
        topic = topic.get("name")
    owner = topic if isinstance(topic, str) else around
    queue = document.get("queue_id", document.get("queueId"))
    return owner if queue is None or not owner else f"{owner.partition('/')[0]}/{queue}"


def _sentence(path: tuple[str, ...], recorded: Any, found: Any) -> str:
    place = _place(path)
    if found is _ABSENT:
        return f"{place} is missing, was {_shown(recorded)}"
    if recorded is _ABSENT:
        return f"{place} is new: {_shown(found)}"
    return f"{place} is {_shown(found)}, was {_shown(recorded)}"


def _place(path: tuple[str, ...]) -> str:
    return (
        "".join(f"[{step}]" if step.isdecimal() else f".{step}" for step in path).lstrip(".") or "the answer"
    )


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return shorten(value)
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
