"""Operations on one broker, with comparable results. Numbers are remoting request codes.

Names of topics, groups and clients end in ``~``, which stands for the run. Both brokers see the same names.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import Any

from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.message.names import DLQ_PREFIX, RETRY_PREFIX, UNDECIDED_TOPIC
from mocketmq.message.properties import REAL_TOPIC, TRAN_MSG
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.record import WireRecord, decode_properties, decode_records
from tests.differential.answers import records_seen
from tests.differential.op import Ends, Seen
from tests.differential.player import POLL_S, Player
from tests.differential.undecided import Check, UndecidedProducer, serial_of
from tests.doors.remoting import consuming, producing
from tests.support.patience import HANGING_S

MAX_QUEUES = 16
"""Number of queues of a topic that are read."""
HELD_MS = 3_000
CREATION_S = 3.0
"""Time in real seconds after which RocketMQ gives up creating a topic, if it still creates others."""
ENDING = (8, 12)
"""Transaction results that RocketMQ answers, which are commits and rollbacks."""
UNANSWERED_S = 2.0
"""Maximum wait in real seconds for an answer to any other transaction result."""
OUTSIDE = ("OFFSET_TOO_SMALL", "OFFSET_OVERFLOW_ONE", "OFFSET_OVERFLOW_BADLY")
"""Remarks of pulls that begin where the queue has no message."""


class Side(Player):
    """One broker while a sequence is played on it; created by :func:`side`."""

    # ── producing ──

    async def send(self, code: int, body: str, properties: str, version: int = 409, **fields: Any) -> Seen:
        """Send one message (10, 310 or 320)."""
        content = _content(body)
        ext = producing.header(code, properties, batch=False, **fields)
        client, sent_s = await self.client(), monotonic()
        answer = await client.call(code, ext, content, version=version)
        is_missing = answer.code == ResponseCode.TOPIC_NOT_EXIST
        self.arrivals.by_chance |= is_missing and monotonic() - sent_s > CREATION_S
        self._expect(answer, fields, 1, properties)
        given = decode_properties(properties)
        is_parked = given.get("DELAY", "0") not in ("0", "-1")
        if is_parked:
            self._waiting.add(fields["topic"])
        if answer.code == 0 and TRAN_MSG not in given:
            level = int(given["DELAY"]) if is_parked else 0
            self.arrivals.add(fields["topic"], int(answer.ext["queueId"]), level, sent_s, monotonic())
        if answer.code == 0 and fields["sys_flag"] & 0xC == 0x4:
            self._halves[body.partition(":")[0]] = answer.ext
        seen = self._sent(answer, None if is_parked or TRAN_MSG in given else fields["topic"])
        if fields["topic"] in self._made_again and seen["ext"].get("queueOffset", "<chance>") != "<chance>":
            start = await self._start(fields["topic"], int(seen["ext"]["queueId"]))
            seen["ext"]["queueOffset"] = str(int(seen["ext"]["queueOffset"]) - start)
        return seen

    async def send_batch(
        self, messages: list[tuple[str, str]], properties: str, flag: int, **fields: Any
    ) -> Seen:
        """Send a batch of messages (320)."""
        body = b""
        for content, text in messages:
            body += producing.batch((_content(content), decode_properties(text)), flag=flag)
        ext = producing.header(producing.BATCH, properties, **fields)
        client, sent_s = await self.client(), monotonic()
        answer = await client.call(producing.BATCH, ext, body)
        self._expect(answer, fields, len(messages), "")
        if answer.code == 0:
            self.arrivals.add(fields["topic"], int(answer.ext["queueId"]), 0, sent_s, monotonic())
        return self._sent(answer, fields["topic"])

    def _expect(self, answer: Command, fields: Mapping[str, Any], count: int, properties: str) -> None:
        if answer.code or decode_properties(properties).get(TRAN_MSG) == "true":
            return
        topic, times, most = (fields[name] for name in ("topic", "reconsume_times", "max_reconsume_times"))
        if topic.startswith(RETRY_PREFIX) and times >= (16 if most is None else most):
            topic = DLQ_PREFIX + topic.removeprefix(RETRY_PREFIX)
        self._expected[topic] += count

    def _sent(self, answer: Command, topic: str | None) -> Seen:
        """Return the answer to a send, without the offset if delayed messages may arrive at any time."""
        seen = self._seen(answer)
        if "queueOffset" in seen["ext"] and (topic is None or topic in self._waiting):
            seen["ext"]["queueOffset"] = "<chance>"
        if "msgId" in answer.ext:
            seen["ext"]["msgId"] = [self._message_id(one) for one in answer.ext["msgId"].split(",")]
        return seen

    def _message_id(self, text: str) -> str:
        host, port, offset = text[:8], int(text[8:16], 16), int(text[16:], 16)
        address = ".".join(str(byte) for byte in bytes.fromhex(host))
        return f"{self.names.of(f'{address}:{port}')} {self.names.note(offset)} {len(text)}"

    async def end(
        self,
        serial: str,
        how: int,
        group: str,
        wrong: str = "",
        is_late: bool = False,  # noqa: ARG002
    ) -> Seen:
        """End the transaction of an earlier half message (37), which may already be decided."""
        half = self._halves.get(serial)
        if half is None:
            return {"half": None}
        ext = {
            "producerGroup": group,
            "tranStateTableOffset": half["queueOffset"],
            "commitLogOffset": str(int(half["msgId"][16:], 16)),
            "commitOrRollback": str(how),
            "fromTransactionCheck": "false",
            "msgId": serial,
        }
        if wrong:
            ext[wrong] = str(int(ext[wrong]) + 1)
        client = await self.client()
        async with asyncio.timeout(HANGING_S if how in ENDING else UNANSWERED_S):
            return self._seen(await client.ask(RequestCode.END_TRANSACTION, ext))

    async def leave_open(self, group: str, plan: list[str], send: Mapping[str, Any]) -> Seen:
        """Send a half message, and plan the producer's answers to its check-backs."""
        if self._producer is None:
            self._producer = UndecidedProducer(await self.client("asked"))
            self._stack.push_async_callback(self._producer.close)
        await self._producer.produce(group, send["body"].partition(":")[0], plan)
        return await self.send(**send)

    async def asked(self, serial: str, topic: str, *, is_given_up: bool) -> Seen:
        """Return the half message's check-backs, and its record if the broker gave up."""
        half, producer = self._halves.get(serial), self._producer
        if half is None or producer is None:
            return {"half": None}
        told = int(half["msgId"][16:], 16), half["queueOffset"]
        async with asyncio.timeout(HANGING_S):
            checks = [await self._asked(each, *told) for each in await producer.checks(serial)]
            given_up = await self._given_up(serial, topic) if is_given_up else None
        self.arrivals.by_chance |= producer.was_late
        return {"checks": checks, "given up": given_up}

    async def _asked(self, check: Check, log_offset: int, queue_offset: str) -> Seen:
        """Return one check-back. Later offsets of a half message get the name of its first offset."""
        question, record, answer = check
        about = int(question.ext["commitLogOffset"]), question.ext["tranStateTableOffset"]
        self.names.same(about[0], log_offset)
        ext = {name: self.names.of(value) for name, value in question.ext.items()}
        ext["commitLogOffset"] = self.names.offset(about[0])
        ext["offsetMsgId"] = self._message_id(ext["offsetMsgId"])
        ext["tranStateTableOffset"] = "<number>"
        [asked] = records_seen([record], self.names)
        asked["queueOffset"] = "<number>" if str(record.queue_offset) == about[1] else "<another>"
        return {
            "code": question.code,
            "ext": ext,
            "record": asked,
            "stored": "anew" if about != (log_offset, queue_offset) else "once",
            "answer": None if answer is None else self._seen(await answer),
        }

    async def _given_up(self, serial: str, topic: str) -> Seen:
        """Return the record of a half message that had too many check-backs."""
        while True:
            end = await self._offset("maxOffset", UNDECIDED_TOPIC, 0)
            records, _ = await self._records_in(UNDECIDED_TOPIC, 0, end)
            for record in records:
                if serial_of(record) == serial and decode_properties(record.properties)[REAL_TOPIC] == topic:
                    self.names.note(record.log_offset)
                    [seen] = records_seen([record], self.names)
                    return {**seen, "queueOffset": "<number>"}
            await asyncio.sleep(POLL_S)

    async def expect(self, topic: str, count: int) -> Seen:
        """Expect ``count`` more messages in a topic."""
        self._expected[topic] += count
        return {}

    # ── pulling ──

    async def pull(
        self,
        topic: str,
        queue_id: int,
        at: str,
        offset: int,
        flags: int,
        client: str = "one",
        **fields: Any,
    ) -> Seen:
        """Pull (11) from ``offset``, relative to the queue's start or end unless ``at`` is ``absolute``."""
        start = offset + (0 if at == "absolute" else await self._offset(f"{at}Offset", topic, queue_id))
        ext = consuming.pull_of(start, flags, topic=topic, queueId=queue_id, **fields)
        seen = self._pulled(await (await self.client(client)).call(consuming.PULL, ext))
        if not flags:
            seen["filter"] = self._filters.get((fields.get("consumerGroup", ""), topic))
        behind = await self._start(topic, queue_id)
        for name in {"minOffset", "maxOffset", "nextBeginOffset"} & seen["ext"].keys():
            seen["ext"][name] = str(int(seen["ext"][name]) - behind)
        for record in seen["records"]:
            record["queueOffset"] -= behind
        if behind and seen["ext"].get("maxOffset") == "0" and seen["remark"] in OUTSIDE:
            seen["remark"] = "NO_MESSAGE_IN_QUEUE"  # of the queue that begins at offset 0
        return seen

    async def held(self, topic: str, queue_id: int, send: Mapping[str, Any], **fields: Any) -> Seen:
        """Pull (11) from the end of a queue, and send during the long poll."""
        start = await self._offset("maxOffset", topic, queue_id)
        flags = consuming.SUSPEND | consuming.SUBSCRIPTION
        ext = consuming.pull_of(
            start, flags, topic=topic, queueId=queue_id, suspendTimeoutMillis=HELD_MS, **fields
        )
        waiting, asked_s = (await self.client("holding")).ask(consuming.PULL, ext), monotonic()
        sent = await self.send(**send)
        self.held_too_long(asked_s, HELD_MS)
        return {"sent": sent, "pulled": self._pulled(await waiting)}

    def held_too_long(self, asked_s: float, held_ms: int) -> None:
        """Mark the order as random if the long poll may have timed out before its answer was ready."""
        self.arrivals.by_chance |= monotonic() - asked_s > held_ms / 2_000

    def _pulled(self, answer: Command) -> Seen:
        return {**self._seen(answer, None), "records": records_seen(self.records_of(answer), self.names)}

    def records_of(self, answer: Command) -> list[WireRecord]:
        """Return the messages of a pull's answer."""
        return decode_records(answer.body)

    async def _offset(self, which: str, topic: str, queue_id: int) -> int:
        code = consuming.MAX_OFFSET if which == "maxOffset" else consuming.MIN_OFFSET
        answer = await (await self.client()).call(code, consuming.place(queue_id, topic, None))
        return int(answer.ext.get("offset", 0))

    async def _start(self, topic: str, queue_id: int) -> int:
        """Return a queue's start, which differs between the brokers after its topic was recreated."""
        return await self._offset("minOffset", topic, queue_id) if topic in self._made_again else 0

    async def has_all(self, topic: str) -> bool:
        """Whether a topic has all messages that were sent to it."""
        name = self.real(topic)
        if not self._expected[name]:
            return True
        ends = await asyncio.gather(
            *(self._offset("maxOffset", name, queue_id) for queue_id in range(MAX_QUEUES))
        )
        return sum(ends) >= self._expected[name]

    async def collect(self, topic: str) -> Seen:
        """Return all messages of a topic in order of sending, and the lengths of its queues.

        Messages are sorted because delayed messages that fall due together enter a queue in random order.
        """
        self._waiting.discard(topic)
        queues: dict[str, int] = {}
        found: list[WireRecord] = []
        for queue_id in range(MAX_QUEUES):
            end = await self._offset("maxOffset", topic, queue_id)
            if length := end - await self._start(topic, queue_id):
                queues[str(queue_id)] = length
            records, failed = await self._records_in(topic, queue_id, end)
            if failed is not None:
                return {"queues": queues, "failed": self._seen(failed, None)}
            found += records
        found.sort(key=lambda one: (serial_of(one), one.reconsume_times, one.queue_id, one.queue_offset))
        self._records.update((serial_of(record), record) for record in found)
        for one in found:
            self.names.note(one.log_offset)
        shown = records_seen(found, self.names)
        for record in shown:
            del record["queueOffset"]
        return {"queues": queues, "records": shown}

    async def made_again(self, topic: str) -> Seen:
        """Count offsets from the start of the topic's queues, because the topic was deleted and recreated."""
        return {str(queue_id): await self._start(topic, queue_id) for queue_id in range(MAX_QUEUES)}

    async def _records_in(
        self, topic: str, queue_id: int, end: int
    ) -> tuple[list[WireRecord], Command | None]:
        """Return all messages before an offset, and the answer to the first failed pull."""
        found: list[WireRecord] = []
        client = await self.client()
        at = await self._offset("minOffset", topic, queue_id)
        while at < end:
            ext = consuming.pull_of(at, topic=topic, queueId=queue_id, consumerGroup="TOOLS_CONSUMER")
            answer = await client.call(consuming.PULL, ext)
            if answer.code not in (0, 20) or int(answer.ext["nextBeginOffset"]) <= at:
                return found, answer
            found += self.records_of(answer)
            at = int(answer.ext["nextBeginOffset"])
        return found, None

    # ── offsets ──

    async def committed(
        self,
        group: str,
        topic: str,
        queue_id: int,
        beyond: int = 0,  # noqa: ARG002
        is_deleted: bool = False,  # noqa: ARG002
    ) -> Seen:
        """Query an offset (14) committed ``beyond`` the queue's end, or before the topic was deleted."""
        seen = await self._plain(consuming.QUERY_OFFSET, consuming.place(queue_id, topic, group))
        if "offset" in seen["ext"]:
            seen["ext"]["offset"] = str(int(seen["ext"]["offset"]) - await self._start(topic, queue_id))
        return seen

    async def commit(self, group: str, topic: str, queue_id: int, beyond: int) -> Seen:
        """Commit an offset (15) ``beyond`` the queue's end; does nothing for an empty queue."""
        end = await self._offset("maxOffset", topic, queue_id)
        start = await self._start(topic, queue_id)
        if end == start:
            return {}
        offset = max(start, end + beyond)
        return await self._plain(
            consuming.UPDATE_OFFSET, consuming.place(queue_id, topic, group, commitOffset=offset)
        )

    async def search(self, serial: str, shift_ms: int) -> Seen:
        """Search (29) the queue of a known message at ``shift_ms`` after its store time.

        If several messages share a millisecond, the first is compared.
        """
        record = self._records.get(serial)
        if record is None:
            return {"record": None}
        ext = consuming.place(record.queue_id, record.topic, None, timestamp=record.store_ms + shift_ms)
        seen = await self._plain(consuming.SEARCH_OFFSET, ext)
        stored = {
            each.queue_offset: each.store_ms
            for each in self._records.values()
            if (each.topic, each.queue_id) == (record.topic, record.queue_id)
        }
        found_ms = stored.get(int(seen["ext"]["offset"]))
        seen["ext"]["offset"] = min((at for at, each in stored.items() if each == found_ms), default=None)
        return seen

    async def offset(self, code: int, topic: str, queue_id: int) -> Seen:
        """Return a queue's end (30) or start (31)."""
        seen = await self._plain(code, consuming.place(queue_id, topic, None))
        if "offset" in seen["ext"]:
            seen["ext"]["offset"] = str(int(seen["ext"]["offset"]) - await self._start(topic, queue_id))
        return seen

    async def earliest(self, topic: str, queue_id: int) -> Seen:
        """Ask for the earliest store time (32); the result only shows whether the answer has a time."""
        seen = await self._plain(consuming.EARLIEST, consuming.place(queue_id, topic, None))
        if seen["ext"].get("timestamp", "-1") != "-1":
            seen["ext"]["timestamp"] = "<time>"
        return seen

    # ── retries and looking up ──

    async def back(self, serial: str, group: str, level: int, most: int | None, version: int) -> Seen:
        """Send back (36) a message that was seen before."""
        record = self._records.get(serial)
        if record is None:
            return {"record": None}
        ext = {"offset": record.log_offset, "group": group, "delayLevel": level, "originMsgId": "x"}
        ext["originTopic"] = record.topic
        if most is not None:
            ext["maxReconsumeTimes"] = most
        sent = {name: str(value) for name, value in ext.items()}
        client, sent_s = await self.client(), monotonic()
        answer = await client.call(consuming.SEND_BACK, sent, version=version)
        if answer.code == 0:
            limit = 16 if most is None or version < 121 else most
            is_dead = level < 0 or record.reconsume_times >= limit
            topic = (DLQ_PREFIX if is_dead else RETRY_PREFIX) + group
            self._expected[topic] += 1
            self._waiting.add(topic)
            waits = 0 if is_dead else level or 3 + record.reconsume_times
            self.arrivals.add(topic, 0, waits, sent_s, monotonic())
        return self._seen(answer)

    async def view(self, serial: str, shift: int, is_deleted: bool = False) -> Seen:  # noqa: ARG002
        """View (33) a message that was seen before, or the log at some bytes behind it."""
        record = self._records.get(serial)
        if record is None:
            return {"record": None}
        answer = await (await self.client()).call(
            RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(record.log_offset + shift)}
        )
        remark = (answer.remark or "").replace(str(record.log_offset + shift), "<offset>")
        answer.remark = remark or None
        return {**self._seen(answer, None), "records": records_seen(decode_records(answer.body), self.names)}

    async def query(self, topic: str, key: str, number: int, *, is_unique: bool, before_ms: int) -> Seen:
        """Query by key (12) in the hour that ended ``before_ms`` ago; negative values are in the future."""
        now_ms = wall_us() // US_PER_MS
        ext = {
            "topic": topic,
            "key": key,
            "maxNum": str(number),
            "beginTimestamp": str(now_ms - before_ms - 3_600_000),
            "endTimestamp": str(now_ms - before_ms),
            "_UNIQUE_KEY_QUERY": str(is_unique).lower(),
        }
        answer = await (await self.client()).call(RequestCode.QUERY_MESSAGE, ext)
        records = records_seen(decode_records(answer.body), self.names)
        seen = self._seen(answer, None)
        for name in ("indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"):
            if name in seen["ext"]:
                seen["ext"][name] = "<number>"
        return {**seen, "records": records}


@asynccontextmanager
async def side(ends: Ends, run: str, made: type[Side] = Side) -> AsyncIterator[Side]:
    """Open one broker to play a sequence on it."""
    async with AsyncExitStack() as stack:
        yield made(ends, run, stack)


def _content(body: str) -> bytes:
    """Return a body. ``7:300`` stands for 300 bytes that begin with 7."""
    serial, _, size = body.partition(":")
    return f"{serial}:".ljust(int(size), "x").encode() if size else body.encode()
