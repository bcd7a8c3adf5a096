"""Operations of RocketMQ 5 in addition to :mod:`operations`: popping, timers and recalls."""

import asyncio
import base64
import json
from collections.abc import Mapping
from time import monotonic
from typing import Any

from mocketmq.message.properties import FIRST_POP_TIME, POP_CK
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.record import decode_records
from tests.differential.answers import records_seen
from tests.differential.op import Seen
from tests.differential.pipelining import PipeliningSide
from tests.differential.player import POLL_S
from tests.doors.remoting import popping, producing
from tests.support.remoting import RemotingClient

VERSION = 459
HELD_MS = 5_000
INVISIBLE_MS = 600_000
"""Time limit that is longer than a sequence takes on a slow machine."""
IN_ORDER = "999"
"""The revive queue in the handle of an ordered pop."""
VISIBLE_S = 60.0
"""Maximum real seconds from a message's invisible time to its redelivery, because upstream polls."""


class PopSide(PipeliningSide):
    """One broker of RocketMQ 5. A message is identified by the number at the start of its body."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._handles: dict[tuple[str, str], list[str]] = {}  # by group and number, the newest last
        self._held: dict[tuple[str, str], dict[str, str]] = {}  # by group and topic: unsettled, by number
        self._lapsed: set[str] = set()  # handles of ordered pops, by which only RocketMQ acknowledges now
        self._attempts: dict[tuple[str, str, int], str] = {}  # of the last ordered pop, by group and queue
        self._recalls: dict[str, str] = {}
        self._recalled: set[str] = set()

    # ── producing ──

    async def client(self, name: str = "one") -> RemotingClient:
        """Like the inherited method, with a client of version 5.1.4."""
        client = await super().client(name)
        client.version = VERSION
        return client

    async def send(
        self, code: int, body: str, properties: str, version: int = VERSION, **fields: Any
    ) -> Seen:
        """Like the inherited method, but wait until the message can be consumed, unless it is delayed."""
        content = body.encode()
        ext = producing.header(code, properties, batch=False, **fields)
        answer = await (await self.client()).call(code, ext, content, version=version)
        seen = self._sent(answer, fields["topic"])
        handle = answer.ext.get("recallHandle")
        if handle:
            self._recalls[body.partition(":")[0]] = handle
            seen["ext"]["recallHandle"] = self._recall_handle(handle)
        if answer.code == 0:
            self._expected[fields["topic"]] += 1
            if "TIMER_" in properties:
                seen["ext"]["queueOffset"] = "<chance>"
            else:
                await self._visible(
                    fields["topic"], int(answer.ext["queueId"]), int(answer.ext["queueOffset"])
                )
        return seen

    async def _visible(self, topic: str, queue_id: int, queue_offset: int) -> None:
        while await self._offset("maxOffset", topic, queue_id) <= queue_offset:  # noqa: ASYNC110 # none tells
            await asyncio.sleep(POLL_S)

    def _recall_handle(self, handle: str) -> list[str]:
        version, topic, broker, _, key = base64.urlsafe_b64decode(handle).decode().split(" ")
        return [version, self.names.of(topic), broker, "<time>", self.names.of(key)]

    async def recall(self, serial: str, topic: str, **wrong: str) -> Seen:
        """Recall a message (370); ``wrong`` replaces parts of the handle."""
        handle = self._recalls.get(serial)
        if handle is None:
            return {"handle": None}
        if "handle" in wrong:
            handle = wrong["handle"]
        elif wrong:
            parts = base64.urlsafe_b64decode(handle).decode().split(" ")
            for name, value in wrong.items():
                parts[("version", "topic", "broker", "time", "key").index(name)] = value
            handle = base64.urlsafe_b64encode(" ".join(parts).encode()).decode()
        seen = await self._plain(
            RequestCode.RECALL_MESSAGE, {"producerGroup": "makers", "topic": topic, "recallHandle": handle}
        )
        if seen["code"] == 0 and not wrong and serial not in self._recalled:
            self._recalled.add(serial)
            self._expected[topic] -= 1
        return seen

    # ── popping ──

    async def pop(self, group: str, topic: str, wait_ms: int = 0, **fields: Any) -> Seen:
        """Pop (200050)."""
        born = {"bornTime": 0}  # otherwise the broker may answer that the pop is too late
        usual = {**born, "invisibleTime": INVISIBLE_MS}
        ext = popping.pop_of(wait_ms, **{**usual, "consumerGroup": group, "topic": topic, **fields})
        answer = await (await self.client()).call(popping.POP, ext)
        return self._popped(group, topic, answer, fields.get("attemptId", ""))

    async def held_pop(self, group: str, topic: str, sends: list[dict[str, Any]], **fields: Any) -> Seen:
        """Pop (200050) as a long poll, with sends during the poll."""
        usual = {"bornTime": 0, "invisibleTime": INVISIBLE_MS}
        ext = popping.pop_of(HELD_MS, consumerGroup=group, topic=topic, **usual, **fields)
        waiting, asked_s = (await self.client("holding")).ask(popping.POP, ext), monotonic()
        sent = [await self.send(**each) for each in sends]
        self.held_too_long(asked_s, HELD_MS)
        return {"sent": sent, "popped": self._popped(group, topic, await waiting)}

    def _popped(self, group: str, topic: str, answer: Command, attempt: str = "") -> Seen:
        seen = self._seen(answer, None)
        ext = seen["ext"]
        for name in ("startOffsetInfo", "msgOffsetInfo", "orderCountInfo"):
            ext.pop(name, None)  # the messages contain the same information
        if "popTime" in ext:
            ext["popTime"] = "<time>"
        messages = popping.messages(answer, topic) if answer.code == 0 else []
        found = records_seen([each.record for each in messages], self.names)
        for record, message in zip(found, messages, strict=True):
            start, _, invisible, revive, kind, broker, queue_id, offset = message.handle.split(" ")
            record["handle"] = [invisible, revive, kind, broker, queue_id, offset]
            record["starts"] = int(start) <= int(offset)
            record["times"] = message.times
            record["repeats"] = attempt != "" and attempt == self._attempts.get((group, topic, int(queue_id)))
            record["properties"].pop(POP_CK, None)
            if FIRST_POP_TIME in record["properties"]:
                record["properties"][FIRST_POP_TIME] = "<time>"
            serial = message.body.partition(":")[0]
            self._handles.setdefault((group, serial), []).append(message.handle)
            held = self._held.setdefault((group, topic), {})
            if revive == IN_ORDER:  # an ordered pop: no other message of the queue is still in flight
                for other in [each for each in held if _is_older(held[each], message.handle)]:
                    del held[other]
            held[serial] = message.handle
        if attempt:
            self._attempts |= {(group, topic, message.record.queue_id): attempt for message in messages}
        found.sort(key=lambda record: int(record["body"].partition(":")[0]))
        seen["records"] = found
        return seen

    def _handle(self, group: str, serial: str, which: int) -> str | None:
        handles = self._handles.get((group, serial), [])
        found = handles[which] if -len(handles) <= which < len(handles) else None
        return None if found in self._lapsed else found

    async def ack(self, group: str, topic: str, serial: str, which: int = -1, **wrong: Any) -> Seen:
        """Ack (200051) a popped message by its newest or by an older handle."""
        handle = self._handle(group, serial, which)
        if handle is None:
            return {"handle": None}
        seen = await self._plain(popping.ACK, _settling(handle, group, topic, wrong))
        held = self._held.get((group, topic), {})
        is_held = held.get(serial) == handle and not wrong
        if is_held:
            del held[serial]
        return {**seen, "held": is_held}

    async def acks(self, group: str, topic: str, serials: list[str], **wrong: Any) -> Seen:
        """Ack several messages (200151), batched by queue as clients do."""
        acks: dict[tuple[str, ...], dict[str, Any]] = {}
        held = set() if wrong else {*serials} & self._held.get((group, topic), {}).keys()
        for serial in serials:
            handle = self._handle(group, serial, -1)
            if handle is None:
                continue
            start, pop_ms, invisible, revive, kind, _, queue_id, offset = handle.split(" ")
            ack = acks.setdefault(
                (start, pop_ms, invisible, revive, kind, queue_id),
                {
                    **{"c": group, "t": topic, "r": kind, "so": int(start), "q": int(queue_id)},
                    **{"rq": int(revive), "pt": int(pop_ms), "it": int(invisible), "b": 0},
                },
            )
            ack["b"] |= 1 << (int(offset) - int(start))
        for serial in held:
            del self._held[group, topic][serial]
        for ack in acks.values():
            bits = ack["b"]
            given = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
            # The format of the Rust client, which 5.3.3 fails to read above a signed byte.
            as_numbers = bits.bit_count() % 3 == 0 and max(given) < 128
            ack["b"] = list(given) if as_numbers else base64.b64encode(given).decode()
            ack.update(wrong)
        body = json.dumps({"brokerName": "broker-a", "acks": list(acks.values())}).encode()
        seen = self._seen(await (await self.client()).call(popping.BATCH_ACK, body=body))
        return {**seen, "held": bool(held)}

    async def invisible(
        self, group: str, topic: str, serial: str, ms: int, *, is_held: bool, **wrong: Any
    ) -> Seen:
        """Change the invisible time (200053) of a message in flight, or of any popped message."""
        handle = self._handle(group, serial, -1)
        if handle is None or (is_held and serial not in self._held.get((group, topic), {})):
            return {"handle": None}
        ext = _settling(handle, group, topic, {"invisibleTime": ms, **wrong})
        answer = await (await self.client()).call(popping.CHANGE, ext)
        seen = self._seen(answer)
        if answer.code == 0:
            seen["ext"]["popTime"] = "<time>"
            if int(answer.ext["invisibleTime"] or 0) > ms:
                seen["ext"]["invisibleTime"] = "<more>"
            parts = handle.split(" ")
            new = (answer.ext["popTime"], answer.ext["invisibleTime"], answer.ext["reviveQid"])
            changed = " ".join((parts[7], *new, *parts[4:]))
            self._handles[group, serial].append(changed)
            held = self._held.setdefault((group, topic), {})
            if ms:
                held[serial] = changed
            else:
                held.pop(serial, None)
                if parts[3] == IN_ORDER:
                    self._lapsed.add(changed)
        return seen

    async def lapse(self, group: str, topic: str) -> Seen:
        """Wait until the invisible times of all messages in flight have expired."""
        held = sorted(self._held.pop((group, topic), {}).items(), key=lambda one: int(one[0]))
        seen: list[tuple[str, int]] = []
        for serial, handle in held:
            ext = _settling(handle, group, topic, {"invisibleTime": 0})
            answer = await (await self.client()).call(popping.CHANGE, ext)
            seen.append((serial, answer.code))
        await self._peeked(group, topic, {serial for serial, code in seen if code == 0})
        return {"changed": dict(seen)}

    async def pop_and_lapse(self, group: str, topic: str, acked: list[str], ms: int, **fields: Any) -> Seen:
        """Pop with a short invisible time, ack some messages, and wait for redelivery of the others."""
        asked_s = monotonic()
        seen = await self.pop(group, topic, invisibleTime=ms, **fields)
        for serial in acked:
            if serial in self._held.get((group, topic), {}):
                await self.ack(group, topic, serial)
        self.held_too_long(asked_s, ms)
        await asyncio.sleep(ms / 1000)
        await self._peeked(group, topic, set(self._held.pop((group, topic), {})))
        return seen

    async def _peeked(self, group: str, topic: str, serials: set[str]) -> None:
        until = monotonic() + VISIBLE_S
        while not serials <= await self._peek(group, topic) and monotonic() < until:  # noqa: ASYNC110 # as above
            await asyncio.sleep(POLL_S)

    async def _peek(self, group: str, topic: str) -> set[str]:
        answer = await (await self.client()).call(
            popping.PEEK, {"consumerGroup": group, "topic": topic, "queueId": "-1", "maxMsgNums": "32"}
        )
        return {record.body.decode().partition(":")[0] for record in decode_records(answer.body)}

    async def peek(self, group: str, topic: str, **fields: Any) -> Seen:
        """Peek (200052)."""
        ext = popping.written({"consumerGroup": group, "topic": topic, **fields})
        answer = await (await self.client()).call(popping.PEEK, ext)
        seen = self._seen(answer, None)
        records = decode_records(answer.body)
        found = records_seen(records, self.names)
        for record in found:
            record["properties"].pop(POP_CK, None)
            if record["reconsumeTimes"]:
                record["properties"][FIRST_POP_TIME] = "<time>"
        found.sort(key=lambda record: int(record["body"].partition(":")[0]))
        return {**seen, "records": found}

    async def notification(self, group: str, topic: str, **fields: Any) -> Seen:
        """Ask whether there is a message to pop (notification, 200054)."""
        ext = popping.written({"consumerGroup": group, "topic": topic, "bornTime": 0, **fields})
        return await self._plain(popping.NOTIFICATION, ext)

    async def held_notification(self, group: str, topic: str, send: dict[str, Any], **fields: Any) -> Seen:
        """Notification (200054) as a long poll, with a send during the poll."""
        ext = popping.written(
            {"consumerGroup": group, "topic": topic, "bornTime": 0, "pollTime": HELD_MS, **fields}
        )
        waiting, asked_s = (await self.client("holding")).ask(popping.NOTIFICATION, ext), monotonic()
        sent = await self.send(**send)
        self.held_too_long(asked_s, HELD_MS)
        return {"sent": sent, "told": self._seen(await waiting)}

    async def polling(self, group: str, topic: str, queue_id: int) -> Seen:
        """Ask how many pops are waiting (polling info, 200055)."""
        return await self._plain(
            popping.POLLING_INFO, {"consumerGroup": group, "topic": topic, "queueId": str(queue_id)}
        )

    # ── queue assignment ──

    async def assignment(self, **body: Any) -> Seen:
        """Ask for a client's queues (400)."""
        return self._seen(
            await (await self.client()).call(RequestCode.QUERY_ASSIGNMENT, body=json.dumps(body).encode())
        )


def _is_older(handle: str, newer: str) -> bool:
    """Whether a handle belongs to another pop from the same queue."""
    one, other = handle.split(" "), newer.split(" ")
    return one[6] == other[6] and one[1] != other[1]


def _settling(handle: str, group: str, topic: str, given: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the fields of an acknowledgement or of a change of the invisible time."""
    kind, _, queue_id, offset = handle.split(" ")[4:]
    place = {
        "consumerGroup": group,
        "topic": topic if kind == "0" else f"%RETRY%{group}_{topic}",
        "queueId": queue_id,
        "offset": offset,
        "extraInfo": handle,
    }
    return popping.written({**place, **given})
