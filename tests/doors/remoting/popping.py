"""Requests of popping clients, and the handles that clients build from answers.

Follows MQClientAPIImpl.processPopResponse and ExtraInfoUtil of 5.3.3, as tests with that client confirm.
"""

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.record import WireRecord, decode_records
from tests.doors.remoting.producing import parted
from tests.support.brokers import GROUP, TOPIC, send
from tests.support.patience import PATIENCE_S
from tests.support.remoting import Remoting, RemotingClient

POP, ACK, PEEK, CHANGE, NOTIFICATION, POLLING_INFO, BATCH_ACK = (
    200_050,
    200_051,
    200_052,
    200_053,
    200_054,
    200_055,
    200_151,
)
INVISIBLE_MS = 60_000
MANDATORY = {"popTime", "invisibleTime", "reviveQid", "restNum"}
Ext = dict[str, str]


class Message(NamedTuple):
    """A message as its consumer sees it."""

    body: str
    handle: str  # POP_CK
    times: int
    record: WireRecord
    properties: dict[str, str]


def written(given: dict[str, object]) -> Ext:
    """Return ext fields as Java writes them; fields that are None are left out."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
        if value is not None
    }


def pop_of(wait_ms: object = 0, **fields: object) -> Ext:
    """Return the ext fields of a pop; ``fields`` have wire names."""
    return written(
        {
            "consumerGroup": GROUP,
            "topic": TOPIC,
            "queueId": -1,
            "maxMsgNums": 32,
            "invisibleTime": INVISIBLE_MS,
            "pollTime": wait_ms,
            # Without a poll time, the broker would refuse a pop that took half a second to arrive.
            "bornTime": wall_us() // US_PER_MS if wait_ms else 0,
            "initMode": 0,
            "expType": "TAG",
            "exp": "*",
            "order": False,
            **fields,
        }
    )


async def pop(client: RemotingClient, **fields: object) -> list[Message]:
    """Pop, and return the messages, or an empty list if the answer reports none."""
    answer = await client.call(POP, pop_of(**fields))
    assert set(answer.ext) >= MANDATORY
    return messages(answer) if answer.code != 210 else []


def pop_later(client: RemotingClient, **fields: object) -> asyncio.Future[Command]:
    """Start a pop that waits."""
    return client.ask(POP, pop_of(60_000, **fields))


def messages(answer: Command, topic: str = TOPIC) -> list[Message]:
    """Return the messages of an answer, with the handles that the client builds for them."""
    assert (answer.code, answer.remark) == (0, "FOUND")
    ext = answer.ext
    starts = _parsed(ext["startOffsetInfo"])
    offsets = {key: list(map(int, text.split(","))) for key, text in _parsed(ext["msgOffsetInfo"]).items()}
    counts = _parsed(ext.get("orderCountInfo", ""))
    records = decode_records(answer.body)
    found: dict[str, list[int]] = {}
    for record in records:
        found.setdefault(_key(record), []).append(record.queue_offset)
    assert {key: sorted(some) for key, some in found.items()} == offsets
    made = []
    for record in records:
        properties = parted(record.properties)
        key = _key(record)
        kind, queue_id = key.split("@")
        if "POP_CK" not in properties:
            properties["POP_CK"] = " ".join(
                (
                    *(starts[key], ext["popTime"], ext["invisibleTime"], ext["reviveQid"]),
                    *(kind, "broker-a", queue_id, str(record.queue_offset)),
                )
            )
        count = counts.get(f"{kind}@qo{queue_id}%{record.queue_offset}") or counts.get(key) or "0"
        made.append(
            Message(
                record.body.decode(),
                properties["POP_CK"],
                int(count) or record.reconsume_times,
                record,
                properties,
            )
        )
    assert all(record.topic == topic for record in records)
    return made


def _parsed(text: str) -> dict[str, str]:
    parsed: dict[str, str] = {}
    for one in text.split(";") if text else ():
        kind, queue, value = one.split(" ")
        assert f"{kind}@{queue}" not in parsed
        parsed[f"{kind}@{queue}"] = value
    return parsed


def _key(record: WireRecord) -> str:
    handle = parted(record.properties).get("POP_CK")
    return f"{handle.split(' ')[4] if handle else 0}@{record.queue_id}"


def settling(handle: str, fields: Mapping[str, object]) -> Ext:
    """Return the ext fields of an acknowledgement or of a change of the invisible time."""
    *_, kind, _, queue_id, offset = handle.split(" ")
    return written(
        {
            "consumerGroup": GROUP,
            "topic": TOPIC if kind == "0" else f"%RETRY%{GROUP}_{TOPIC}",
            "queueId": queue_id,
            "offset": offset,
            "extraInfo": handle,
            **fields,
        }
    )


async def ack(client: RemotingClient, handle: str, **fields: object) -> int:
    """Acknowledge a message, and return the code of the answer."""
    return (await client.call(ACK, settling(handle, fields))).code


async def change(client: RemotingClient, handle: str, invisible_ms: int, **fields: object) -> str:
    """Change a message's invisible time, and return the new handle, or "" if refused."""
    answer = await client.call(CHANGE, settling(handle, {"invisibleTime": invisible_ms, **fields}))
    if answer.code:
        assert answer.code == 208
        return ""
    *_, kind, broker, queue_id, offset = handle.split(" ")
    times = (answer.ext[name] for name in ("popTime", "invisibleTime", "reviveQid"))
    return " ".join((offset, *times, kind, broker, queue_id, offset))


def batch_of(handles: Sequence[str], group: str = GROUP) -> bytes:
    """Return the body of a batch acknowledgement, as MQClientAPIImpl.batchAckMessageAsync builds it."""
    acks: dict[tuple[str, ...], tuple[dict[str, object], list[int]]] = {}
    for handle in handles:
        start, pop_ms, invisible_ms, revive, kind, _, queue_id, offset = handle.split(" ")
        one = {
            "c": group,
            "it": int(invisible_ms),
            "pt": int(pop_ms),
            "q": int(queue_id),
            "r": kind,
            "rq": int(revive),
            "so": int(start),
            "t": TOPIC,
        }
        acks.setdefault((kind, queue_id, start, pop_ms), (one, []))[1].append(int(offset) - int(start))
    for one, bits in acks.values():
        number = sum(1 << bit for bit in bits)
        one["b"] = base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "little")).decode()
    return json.dumps({"acks": [one for one, _ in acks.values()], "brokerName": "broker-a"}).encode()


async def ack_all(client: RemotingClient, handles: Sequence[str]) -> int:
    """Acknowledge several messages in one request, and return the code of the answer."""
    return (await client.call(BATCH_ACK, body=batch_of(handles))).code


async def fill(remoting: Remoting, *contents: str, queue: int = 0) -> None:
    for content in contents:
        await send(remoting.broker, content, queue=queue)


async def waited(remoting: Remoting, client_count: int = 1) -> None:
    """Wait until this many clients wait to pop from all queues."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await remoting.client.ok(POLLING_INFO, pop_of())
            if int(answer.ext["pollingNum"]) == client_count:
                return
