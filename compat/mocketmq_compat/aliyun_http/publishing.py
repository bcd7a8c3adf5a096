"""Publish messages: undelayed, delayed, in order, or in a transaction (docs/protocol/aliyun.md §1.7)."""

import hashlib
from typing import Final

from mocketmq.clock import US_PER_S
from mocketmq.errors import InvalidArgumentError
from mocketmq.http_api.request import client_of
from mocketmq.message.message import Message
from mocketmq.message.properties import TAGS
from mocketmq_compat.aliyun_http import properties as property_string
from mocketmq_compat.aliyun_http.answer import NAMESPACE, XmlAnswer
from mocketmq_compat.aliyun_http.call import AliyunCall, whole_number
from mocketmq_compat.aliyun_http.document import document, elements, leaves_of
from mocketmq_compat.aliyun_http.properties import CHECK_IMMUNITY, SHARDING_KEY, sharded_queue_id

SHORTEST_IMMUNITY_S: Final = 10
LONGEST_IMMUNITY_S: Final = 300

_BODY, _TAG, _PROPERTIES = "MessageBody", "MessageTag", "Properties"


async def publish(call: AliyunCall) -> XmlAnswer:
    """Store the message; the response carries the id that its consumers will see.

    Raises the errors of :meth:`Sender.send`, AliyunError ``MalformedXML``, and InvalidArgumentError.
    """
    message = await _message(call)
    immunity_us = _immunity_us(message.properties)
    handle = ""
    if immunity_us is None:
        stored = (await call.broker.sender.send(message)).stored
    else:
        stored, handle, _ = await call.broker.popped_halves.prepare(message, immunity_us)
    fields = [
        ("MessageId", stored.unique_key),
        ("MessageBodyMD5", md5_of(message.body)),
        ("ReceiptHandle", handle),
    ]
    return XmlAnswer(201, document("Message", NAMESPACE, elements(fields)))


def md5_of(body: bytes) -> str:
    """Return the MD5 of the bytes on the wire, in upper-case hex."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest().upper()


async def _message(call: AliyunCall) -> Message:
    given: dict[str, str] = {}
    leaves = await leaves_of(call.content, "Message", (_BODY, _TAG, _PROPERTIES), call.turns)
    for name, text in leaves:
        if name in given:
            raise InvalidArgumentError(name, text, "one value")
        given[name] = text
    properties = property_string.parse(given.get(_PROPERTIES, ""))
    if tag := given.get(_TAG):
        properties[TAGS] = tag
    queue_id = None
    if sharding_key := properties.get(SHARDING_KEY):
        topic = await call.broker.registry.used_topics.for_send(call.topic)
        queue_id = topic.writable_number(sharded_queue_id(sharding_key, topic.writable_count))
    return Message(
        call.topic,
        given.get(_BODY, "").encode(),
        properties,
        queue_id,
        born_us=call.broker.clock.now_us(),
        born_host=client_of(call.request),
        door="aliyun",
    )


def _immunity_us(properties: dict[str, str]) -> int | None:
    """Read the time before a half message's first check-back; None for an ordinary message."""
    text = properties.get(CHECK_IMMUNITY)
    if text is None:
        return None
    seconds = whole_number(text)
    if seconds is None or not SHORTEST_IMMUNITY_S <= seconds <= LONGEST_IMMUNITY_S:
        raise InvalidArgumentError(
            CHECK_IMMUNITY, text, f"a whole number of seconds, {SHORTEST_IMMUNITY_S} to {LONGEST_IMMUNITY_S}"
        )
    return seconds * US_PER_S
