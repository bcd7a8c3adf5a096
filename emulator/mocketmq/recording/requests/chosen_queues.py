"""Sends for which the recorded broker chose a queue, at random. A replay asks for the queue that it chose."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from mocketmq.recording.requests.http_form import object_in
from mocketmq.recording.requests.request_file import RequestEvent

_PATHS: Final = re.compile(r"/v1/topics/[^/?]+/(messages|messages/batch|transactions)")
_OWN_CHOICE: Final = ("queue_id", "priority", "lite_topic")
"""Fields with which a message chooses its queue by itself."""


def chooses_no_queue(event: RequestEvent) -> bool:
    """Whether a request may send messages without a queue."""
    form = event.content
    if event.door == "remoting":
        return bool(form["ext"].get(_queue_field(form)) == "-1")
    return event.door == "json" and form["method"] == "POST" and bool(_PATHS.fullmatch(form["path"]))


def queues_in(answer: Mapping[str, Any]) -> list[int]:
    """The queues of the messages that the answer says were stored; empty if none were."""
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
    """The request with these queues, where it chooses none."""
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
