"""Makes two brokers' answers comparable by replacing or removing addresses, times and log offsets."""

import hashlib
import json
import re
from typing import Any

from mocketmq.errors import InvalidArgumentError
from mocketmq.remoting.wire import fastjson
from mocketmq.remoting.wire.record import WireRecord

Json = Any

_LONG = 200
_RATES = ("consumeTps",)
_TIME_MS = re.compile(r"\b1[789]\d{11}\b")


class Names:
    """Assigns stable names to texts and offsets that differ on each run."""

    def __init__(self, run: str) -> None:
        self._names = {run: "~"}
        self._offsets: dict[int, str] = {}

    def add(self, text: str, name: str) -> None:
        """Give a text a name."""
        self._names[text] = name

    def of(self, text: str) -> str:
        """Return a text of the broker in which names replace the parts that differ on each run."""
        for found, name in self._names.items():
            text = text.replace(found, name)
        return text

    def note(self, offset: int) -> str:
        """Return a log offset's name, its position in order of first appearance, which both brokers share."""
        return self._offsets.setdefault(offset, f"<message {len(set(self._offsets.values()))}>")

    def same(self, offset: int, as_offset: int) -> None:
        """Give a log offset the name of another log offset."""
        self._offsets[offset] = self.offset(as_offset)

    def offset(self, offset: int) -> str:
        """Return the name of the log offset, or ``<another message>`` if it has none."""
        return self._offsets.get(offset, "<another message>")


def records_seen(records: list[WireRecord], names: Names) -> list[dict[str, Json]]:
    """Return messages field by field, without their store times."""
    return [
        {
            "topic": names.of(record.topic),
            "queueId": record.queue_id,
            "queueOffset": record.queue_offset,
            "commitOffset": names.offset(record.log_offset),
            "body": _short(record.body.decode("utf-8", "replace")),
            "properties": _properties(record.properties, names),
            "flag": record.flag,
            "sysFlag": record.sys_flag,
            "bornTimestamp": record.born_ms,
            "bornHost": names.of(record.born_host),
            "storeHost": names.of(record.store_host),
            "reconsumeTimes": record.reconsume_times,
            "prepared": names.offset(record.prepared_offset) if record.prepared_offset else None,
            "bodyCrc": record.body_crc,
        }
        for record in records
    ]


def _properties(text: str, names: Names) -> dict[str, str]:
    """Return properties by name. Values of a repeated name are joined; offset ids become message names."""
    found: dict[str, str] = {}
    for part in filter(None, text.split("\x02")):
        name, _, value = part.partition("\x01")
        if name == "ORIGIN_MESSAGE_ID" and re.fullmatch("[0-9A-F]{32}", value):
            value = names.offset(int(value[16:], 16))
        value = _short(names.of(value))
        found[name] = f"{found[name]} and {value}" if name in found else value
    return found


def json_seen(body: bytes, names: Names) -> Json:
    """Parse JSON of any dialect, or keep text. Lists are sorted; a time is reduced to its presence."""
    if not body:
        return None
    try:
        value = fastjson.loads(body)
    except InvalidArgumentError:
        return names.of(body.decode("utf-8", "replace"))
    return _value(value, names)


def _value(value: Json, names: Names) -> Json:
    if isinstance(value, dict):
        return {
            _key(key, names): "<rate>" if key in _RATES else _value(each, names)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return sorted(
            (_value(each, names) for each in value), key=lambda each: json.dumps(each, sort_keys=True)
        )
    if isinstance(value, str):
        return names.of(value)
    if isinstance(value, int) and _TIME_MS.fullmatch(str(value)):
        return "<time>"
    return value


def _key(text: str, names: Names) -> str:
    """Return the sort key of a value; the key of an object is its values."""
    if text.startswith("{"):
        parts = fastjson.loads(text.encode())
        return " ".join(names.of(str(parts[name])) for name in sorted(parts))
    return names.of(text)


def _short(text: str) -> str:
    if len(text) <= _LONG:
        return text
    return f"{text[:40]}… ({len(text)} characters, {hashlib.sha256(text.encode()).hexdigest()[:16]})"
