"""Converts answers to gRPC clients into a comparable form."""

import hashlib
import json
from typing import Any

from google.protobuf.json_format import MessageToDict

from mocketmq.grpc_proxy.messages import us_of
from tests.differential.answers import Names
from tests.differential.op import Seen

_TIMES = ("born_timestamp", "store_timestamp", "delivery_timestamp")
_LONG = 100


def status_seen(status: Any, names: Names) -> Seen:
    """Return the code and the message."""
    return {"code": status.code, "remark": names.of(status.message)}


def address_seen(endpoints: Any, port: int) -> Seen:
    """Return endpoints, which should have this port."""
    addresses = [[each.host, "<port>" if each.port == port else each.port] for each in endpoints.addresses]
    return {"scheme": endpoints.scheme, "addresses": addresses}


def fields_seen(message: Any, names: Names) -> Any:
    """Return all fields that are set."""
    return json.loads(names.of(json.dumps(MessageToDict(message))))


def message_seen(message: Any, names: Names, *, place: bool = False) -> Seen:
    """Return a message, optionally with its place; times become presence, a digest becomes correctness."""
    system = message.system_properties
    seen: Seen = {
        descriptor.name: _value(value, names)
        for descriptor, value in system.ListFields()
        if descriptor.name not in ("body_digest", "receipt_handle", "store_host", "dead_letter_queue")
        and ((place and system.delivery_attempt == 1) or descriptor.name not in ("queue_id", "queue_offset"))
    }
    digest = hashlib.md5(message.body, usedforsecurity=False).hexdigest().upper()
    body = message.body.decode()
    for name in _TIMES:
        if system.HasField(name):
            seen[name] = "<time>" if us_of(getattr(system, name)) else 0
    if system.HasField("dead_letter_queue"):
        letter = system.dead_letter_queue
        seen["dead_letter_queue"] = [names.of(letter.topic), letter.message_id]
    return {
        "serial": body.partition(":")[0],
        "topic": [message.topic.resource_namespace, names.of(message.topic.name)],
        "properties": {
            name: "<number>" if name == "TRANSACTION_CHECK_TIMES" else names.of(text)
            for name, text in message.user_properties.items()
        },
        "body": body if len(body) < _LONG else f"{len(body)} letters",
        "digest": [system.body_digest.type, system.body_digest.checksum == digest],
        "handle": bool(system.receipt_handle),
        "system": seen,
    }


def _value(value: Any, names: Names) -> Any:
    if isinstance(value, str):
        return names.of(value)
    if isinstance(value, bool | int | float):
        return value
    return [names.of(each) for each in value] if hasattr(value, "append") else str(value)
