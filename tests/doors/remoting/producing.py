"""Sends of clients, in all their forms, and their results."""

import struct
from collections.abc import Mapping
from typing import Any

from mocketmq.remoting.requests.families import REQUESTS
from mocketmq.remoting.requests.send_header import SendMessageHeader
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.record import WireRecord, decode_records
from tests.support.brokers import GROUP, TOPIC, S, send
from tests.support.remoting import Remoting, RemotingClient

V1, V2, BATCH = 10, 310, 320
PULL = 11
UNIQUE = "AC11000200002A9F18B4AAC200010001"
BORN_MS = 1_700_000_000_123
Ext = dict[str, str]


def joined(properties: Mapping[str, str]) -> str:
    """Return a property string as the 4.9.8 Java client writes it, without a separator at the end."""
    return "\x02".join(f"{key}\x01{value}" for key, value in properties.items())


def parted(text: str) -> dict[str, str]:
    """Parse the properties of a record; each name must occur once."""
    parts = [part.split("\x01") for part in text.split("\x02") if part]
    assert len({key for key, _ in parts}) == len(parts), text
    return dict(parts)


def header(code: int = V2, properties: Mapping[str, str] | str = "", **fields: object) -> Ext:
    """Return the ext fields of a send as the Java client writes them; ``fields`` are SendMessage's."""
    given: dict[str, object] = {
        "producer_group": "makers",
        "topic": TOPIC,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": BORN_MS,
        "flag": 0,
        "properties": properties if isinstance(properties, str) else joined(properties),
        "reconsume_times": 0,
        "unit_mode": False,
        "batch": code == BATCH,
        **fields,
    }
    assert set(given) <= set(SendMessageHeader.__struct_fields__)
    names = REQUESTS[code].names
    return {
        names.get(name, _camel(name)): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
        if value is not None
    }


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def batch(*messages: tuple[bytes, Mapping[str, str]], flag: int = 0) -> bytes:
    """Return the body of a batch (docs/protocol/remoting.md §2.2)."""
    body = b""
    for content, properties in messages:
        text = joined(properties).encode()
        size = 22 + len(content) + len(text)
        body += struct.pack(f">5i{len(content)}sh", size, 0, 0, flag, len(content), content, len(text)) + text
    return body


async def stepped(remoting: Remoting, count: int = 6) -> list[int]:
    """Send messages to queue 0, one second apart, and return the times in milliseconds."""
    times = []
    for n in range(count):
        times.append(remoting.broker.clock.now_us() // 1_000)
        await send(remoting.broker, str(n), queue=0)
        await remoting.broker.mover.advance(1 * S)
    return times


async def sent(
    client: RemotingClient,
    body: bytes = b"hello",
    code: int = V2,
    properties: Mapping[str, str] | str = "",
    **fields: Any,
) -> Ext:
    """Send a message, which must succeed, and return the answer."""
    answer = await client.ok(code, header(code, properties, **fields), body)
    assert answer.remark is None
    return dict(answer.ext)


async def refused(
    client: RemotingClient,
    body: bytes = b"hello",
    code: int = V2,
    properties: Mapping[str, str] | str = "",
    **fields: Any,
) -> tuple[int, str]:
    """Send a message, which must fail, and return code and remark."""
    answer = await client.call(code, header(code, properties, **fields), body)
    assert answer.code != 0
    assert answer.ext == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    return answer.code, str(answer.remark)


async def pulled(
    client: RemotingClient, topic: str = TOPIC, queue_id: int = 0, offset: int = 0
) -> list[WireRecord]:
    """Pull a queue's messages from an offset on."""
    answer: Command = await client.call(
        PULL,
        {
            "consumerGroup": GROUP,
            "topic": topic,
            "queueId": str(queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": "32",
            "sysFlag": "4",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "0",
        },
    )
    assert answer.code in (0, 19, 20), answer
    return decode_records(answer.body)
