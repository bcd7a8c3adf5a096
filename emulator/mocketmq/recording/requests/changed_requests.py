"""The requests that a replay changes: long polls of all protocols, and sends without a queue.

A replay sends a poll at the recorded time of its answer; without its wait, if the recorded poll found
nothing. If the recorded broker chose the queue of a send at random, the replay requests the same queue.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from mocketmq.clock import US_PER_MS
from mocketmq.duration import parse_duration_us
from mocketmq.errors import InvalidArgumentError
from mocketmq.recording.requests.http_form import object_in
from mocketmq.recording.requests.request_file import RequestEvent
from mocketmq.remoting.wire.codes import RequestCode

_CODES: Final = {
    RequestCode.PULL_MESSAGE: "suspendTimeoutMillis",
    RequestCode.LITE_PULL_MESSAGE: "suspendTimeoutMillis",
    RequestCode.POP_MESSAGE: "pollTime",
    RequestCode.NOTIFICATION: "pollTime",
}
"""Codes of polls, with the field for the polling time."""
_OF_JSON: Final = ("/receive", "/wait")
_WAIT_S: Final = re.compile(r"\bwaitseconds=(\d+)")
_GRPC_WAIT: Final = "longPollingTimeout"
_IDS: Final = re.compile(r'UNIQ_KEY\x01([^\x02]+)|"message_?[iI]d":\s*"([^"]+)"|<MessageId>([^<]+)')
"""Message ids in send requests and their answers."""

Form = Mapping[str, Any]
_PATHS: Final = re.compile(r"/v1/topics/[^/?]+/(messages|messages/batch|transactions)")
_OWN_CHOICE: Final = ("queue_id", "priority", "lite_topic")
"""Fields that decide the queue of a message."""


def wait_ms(door: str, form: Form) -> int:
    """Return how long a request may wait, in milliseconds; 0 if it does not wait."""
    match door:
        case "remoting":
            return _number(form["ext"].get(_CODES.get(form["code"], ""), "0"))
        case "json":
            return _wait_of_json(form)
        case "grpc":
            return _wait_of_grpc(form)
        case "aliyun":
            found = _WAIT_S.search(form["path"])
            return 1_000 * int(found[1]) if found else 0
    return 0


def found_nothing(door: str, answer: Form) -> bool:
    """Whether a poll's answer says that it timed out without a message."""
    match door:
        case "remoting":
            return not answer.get("messages") and answer["ext"].get("hasMsg") != "true"
        case "json":
            document = object_in(answer)
            return document.get("messages") == [] or document.get("reached") is False
        case "grpc":
            return not any("message" in each for each in answer.get("messages", ()))
    return "<Message>" not in str(answer.get("body", ""))


def without_wait(door: str, form: Form) -> Form:
    """Return the request without its wait."""
    match door:
        case "remoting":
            return {**form, "ext": {**form["ext"], _CODES[form["code"]]: "0"}}
        case "grpc":
            return {**form, "message": {**form["message"], _GRPC_WAIT: "0s"}}
        case "json":
            document = {name: value for name, value in object_in(form).items() if name != "wait"}
            document["timeout_ms" if form["path"].endswith("/wait") else "wait_ms"] = 0
            return {**form, "body": msgspec.json.encode(document).decode()}
    return {**form, "path": _WAIT_S.sub("waitseconds=0", form["path"])}


def ids_of_sent(request: Form, answer: Form) -> list[str]:
    """Return the ids of the messages that a request sent; empty if there are none, or they are unknown."""
    if "rpc" in request:
        sent = request.get("message", {}).get("messages", ())
        return [each["systemProperties"]["messageId"] for each in sent if "systemProperties" in each]
    ext = request.get("ext", {})
    texts = (ext.get("properties", ""), ext.get("i", ""), str(answer.get("body", "")))
    return [next(filter(None, found)) for text in texts for found in _IDS.findall(text)]


def _wait_of_grpc(form: Form) -> int:
    """Return the polling time, which some clients send only in their settings."""
    if form["rpc"] != "ReceiveMessage":
        return 0
    text = str(form.get("message", {}).get(_GRPC_WAIT, "30s"))
    try:
        return int(float(text.removesuffix("s")) * 1_000)
    except ValueError:
        return 0


def _wait_of_json(form: Form) -> int:
    if not form["path"].partition("?")[0].endswith(_OF_JSON):
        return 0
    document = object_in(form)
    if "advance" in document:
        return 0  # the request moves the clock, so the replay sends it at the recorded time of the request
    if "wait" in document:
        try:
            return parse_duration_us(str(document["wait"])) // US_PER_MS
        except InvalidArgumentError:
            return 0
    if form["path"].endswith("/wait"):
        return _number(document.get("timeout_ms", 5_000))
    return _number(document.get("wait_ms", 0))


def _number(value: object) -> int:
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 12 else 0


def chooses_no_queue(event: RequestEvent) -> bool:
    """Whether a request may send messages without a queue."""
    form = event.content
    if event.door == "remoting":
        return bool(form["ext"].get(_queue_field(form)) == "-1")
    return event.door == "json" and form["method"] == "POST" and bool(_PATHS.fullmatch(form["path"]))


def queues_in(answer: Mapping[str, Any]) -> list[int]:
    """Return the queues of the messages that were stored according to the answer; empty if none were."""
    if "ext" in answer:
        queue = answer["ext"].get("queueId", "")
        return [int(queue)] if queue.isdecimal() else []
    document = object_in(answer)
    stored = document.get("sent", [document])
    queues = []
    for each in stored if isinstance(stored, list) else ():
        real = each.get("real_queue_id")
        queue = each.get("queue_id") if real is None else real
        if not isinstance(queue, int):
            return []
        queues.append(queue)
    return queues


def with_queues(form: Mapping[str, Any], queues: Sequence[int]) -> Mapping[str, Any]:
    """Return the request with these queues for messages that choose none."""
    if "ext" in form:
        return {**form, "ext": {**form["ext"], _queue_field(form): str(queues[0])}}
    document = object_in(form)
    messages = document.get("messages", [document])
    if not isinstance(messages, list) or len(messages) != len(queues):
        return form
    for message, queue in zip(messages, queues, strict=True):
        if isinstance(message, dict) and not any(name in message for name in _OWN_CHOICE):
            message["queue_id"] = queue
    return {**form, "body": msgspec.json.encode(document).decode()}


def _queue_field(form: Mapping[str, Any]) -> str:
    return "queueId" if "queueId" in form["ext"] else "e"
