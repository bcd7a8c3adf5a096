"""Mappings of static topics as JSON (TopicQueueMappingInfo and TopicQueueMappingDetail, 5.5.0).

In each mapping item, the offsets of the broker's queue begin at 0, and the fields for the end of the item are
unused. Mappings with other values are refused.
"""

from typing import Any, Final

from mocketmq.broker.registry.static_topic import UNDECIDED, MappingItem, QueueMapping
from mocketmq.errors import InvalidArgumentError
from mocketmq.message.names import MAX_QUEUES
from mocketmq.remoting.wire.body import JsonObject, objects_in, text_in, whole_in

_LATEST: Final = 1 << 62
"""Maximum logical offset at which an item may begin, so that later offsets fit Java's long."""
_FIXED: Final = {"startOffset": 0, "endOffset": -1, "timeOfStart": -1, "timeOfEnd": -1}


def read_mapping(body: JsonObject) -> QueueMapping:
    """Read a broker's mapping. Raises InvalidArgumentError."""
    hosted = body.get("hostedQueues") or {}
    if not isinstance(hosted, dict):
        raise InvalidArgumentError("hostedQueues", hosted, "a JSON object")
    if body.get("dirty"):
        raise InvalidArgumentError("dirty", body["dirty"], "false")
    return QueueMapping(
        text_in(body, "bname"),
        _within(body, "totalQueues", 0, MAX_QUEUES),
        whole_in(body, "epoch"),
        {_queue_number(number): _items(hosted, number) for number in hosted},
        text_in(body, "scope"),
    )


def mapping_info(topic: str, mapping: QueueMapping) -> dict[str, Any]:
    """The mapping as shown in routes, with only the logical queues that the broker leads."""
    return {
        "bname": mapping.broker,
        "currIdMap": {str(number): queue_id for number, queue_id in sorted(mapping.led.items())},
        "dirty": False,
        "epoch": mapping.epoch,
        "scope": mapping.scope,
        "topic": topic,
        "totalQueues": mapping.queues,
    }


def mapping_detail(topic: str, mapping: QueueMapping) -> dict[str, Any]:
    """The whole mapping."""
    hosted = {str(number): list(map(_item, items)) for number, items in sorted(mapping.hosted.items())}
    return mapping_info(topic, mapping) | {"currIdMap": {}, "hostedQueues": hosted}


def _item(item: MappingItem) -> dict[str, Any]:
    return {
        "bname": item.broker,
        "gen": item.generation,
        "logicOffset": item.start,
        "queueId": item.queue_id,
        **_FIXED,
    }


def _items(hosted: JsonObject, number: str) -> tuple[MappingItem, ...]:
    """Read the items of a logical queue."""
    items = []
    for one in objects_in(hosted, number):
        for name, value in _FIXED.items():
            if one.get(name, value) != value:
                raise InvalidArgumentError(name, one[name], str(value))
        items.append(
            MappingItem(
                _within(one, "gen", 0, MAX_QUEUES),
                _within(one, "queueId", 0, MAX_QUEUES - 1),
                text_in(one, "bname"),
                _within(one, "logicOffset", UNDECIDED, _LATEST),
            )
        )
    if not items:
        raise InvalidArgumentError(f"hostedQueues {number}", [], "at least one item")
    return tuple(items)


def _queue_number(text: str) -> int:
    if not text.isdecimal() or len(text) > len(str(MAX_QUEUES)) or int(text) >= MAX_QUEUES:
        raise InvalidArgumentError("hostedQueues", text, f"numbers of queues, 0 to {MAX_QUEUES - 1}")
    return int(text)


def _within(body: JsonObject, name: str, least: int, most: int) -> int:
    value = whole_in(body, name)
    if not least <= value <= most:
        raise InvalidArgumentError(name, value, f"{least} to {most}")
    return value
