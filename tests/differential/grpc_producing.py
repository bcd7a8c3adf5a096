"""Operations of producing gRPC clients, on RocketMQ's proxy and on mocketmq.

A message is identified by the number at the start of its body. Each group has one client as its consumer, and
one client produces all messages.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from grpclib.exceptions import GRPCError, StreamTerminatedError

from mocketmq.clock import US_PER_S, wall_us
from mocketmq.grpc_proxy.messages import message_class, set_us
from tests.differential.grpc_seen import address_seen, fields_seen, status_seen
from tests.differential.op import Seen
from tests.differential.operations import Side
from tests.support.grpc import GrpcClient, Telemetry, grpc_client
from tests.support.patience import HANGING_S

SOON_S = 30.0
"""Limit on delays; tests wait for messages with a shorter delay."""
DECISION_S = 5.0
"""Time in real seconds after which a check-back may precede the end of a transaction."""
RECALL_S = 5.0
"""Time in real seconds after which a recall may be too late for a message delayed by seconds."""
MAKER = "maker"

_Command = message_class("TelemetryCommand")
_Message = message_class("Message")


class GrpcProducingSide(Side):
    """One gRPC server. ``_published`` and the groups' tags determine what consumers can receive."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._speakers: dict[str, GrpcClient] = {}
        self._streams: dict[str, Telemetry] = {}
        self._groups: dict[str, Sequence[str] | None] = {}  # the tags of a group's filter, None for all
        self._published: dict[str, dict[str, str]] = {}  # tags by topic and number, if consumable
        self._recalls: dict[str, str] = {}
        self._sent_s: dict[str, float] = {}
        self._transactions: dict[str, str] = {}
        self._undecided: dict[str, tuple[str, str]] = {}

    async def _speaker(self, name: str) -> GrpcClient:
        if name not in self._speakers:
            client_id = f"{name}{self._run}@1@0@a"
            client = grpc_client(self._ends.grpc_port, client_id, patience_s=HANGING_S)
            self._speakers[name] = await self._stack.enter_async_context(client)
        return self._speakers[name]

    async def _stream(self, name: str) -> Telemetry:
        if name not in self._streams:
            stream = (await self._speaker(name)).telemetry()
            self._stack.enter_context(suppress(GRPCError))  # from a stream that was refused
            self._streams[name] = await self._stack.enter_async_context(stream)
        return self._streams[name]

    async def _call(self, speaker: str, rpc: str, **fields: Any) -> Any:
        return await (await self._speaker(speaker)).call(rpc, **fields)

    # ── client registration ──

    async def settings(self, speaker: str, tags: Sequence[str] | None = None, **settings: Any) -> Seen:
        """Send settings on the Telemetry stream. The group named like the client subscribes to these tags."""
        stream = await self._stream(speaker)
        self._groups[speaker] = tags
        try:
            await stream.say(_Command(settings=settings))
            answer = await stream.command()
        except (GRPCError, StreamTerminatedError):
            return {"refused": True}
        return {
            **status_seen(answer.status, self.names),
            "settings": fields_seen(answer.settings, self.names),
        }

    async def beat(self, speaker: str, client_type: int, group: str | None) -> Seen:
        """Heartbeat."""
        fields = {} if group is None else {"group": {"name": group}}
        answer = await self._call(speaker, "Heartbeat", client_type=client_type, **fields)
        return status_seen(answer.status, self.names)

    async def terminate(self, speaker: str, group: str | None) -> Seen:
        """NotifyClientTermination."""
        fields = {} if group is None else {"group": {"name": group}}
        answer = await self._call(speaker, "NotifyClientTermination", **fields)
        return status_seen(answer.status, self.names)

    async def route(self, topic: str, scheme: int) -> Seen:
        """QueryRoute."""
        endpoints = {"scheme": scheme, "addresses": [{"host": "127.0.0.1", "port": self._ends.grpc_port}]}
        answer = await self._call(MAKER, "QueryRoute", topic={"name": topic}, endpoints=endpoints)
        seen = status_seen(answer.status, self.names)
        return {**seen, "queues": [self._queue_seen(queue) for queue in answer.message_queues]}

    async def assigned(self, topic: str, group: str) -> Seen:
        """QueryAssignment."""
        endpoints = {"scheme": 1, "addresses": [{"host": "127.0.0.1", "port": self._ends.grpc_port}]}
        answer = await self._call(
            MAKER,
            "QueryAssignment",
            topic={"name": topic},
            group={"name": group},
            endpoints=endpoints,
        )
        queues = [self._queue_seen(each.message_queue) for each in answer.assignments]
        return {**status_seen(answer.status, self.names), "queues": queues}

    def _queue_seen(self, queue: Any) -> Seen:
        return {
            "topic": self.names.of(queue.topic.name),
            "id": queue.id,
            "permission": queue.permission,
            "types": list(queue.accept_message_types),
            "broker": [queue.broker.name, queue.broker.id],
            "endpoints": address_seen(queue.broker.endpoints, self._ends.grpc_port),
        }

    async def unserved(self, rpc: str) -> Seen:
        """Call an RPC that the proxy does not serve."""
        try:
            await self._call(MAKER, "Heartbeat", path=rpc)
        except GRPCError as error:
            return {"grpc": error.status.value}
        return {"grpc": 0}

    async def without_id(self, rpc: str) -> Seen:
        """Call an RPC without a client id."""
        client = await self._speaker("nameless")
        client.metadata.pop("x-mq-client-id", None)
        return status_seen((await client.call(rpc)).status, self.names)

    # ── producing ──

    async def produce(self, messages: list[Mapping[str, Any]]) -> Seen:
        """SendMessage."""
        made_s, given = monotonic(), [self._message(**one) for one in messages]
        answer = await self._call(MAKER, "SendMessage", messages=given)
        sent_s = monotonic()
        if any(0 < one.get("delay_s", 0) <= sent_s - made_s for one in messages):
            self.arrivals.by_chance = True  # the message may have been due on arrival
        for one, message in zip(messages, given, strict=True):
            self._sent_s[one["serial"]] = sent_s
            if answer.status.code == 20_000 and one.get("delay_s", 0) < SOON_S:
                tag, system = one.get("tag", ""), message.system_properties
                if system.message_type == 4:
                    self._undecided[one["serial"]] = one["topic"], tag
                else:
                    self._published.setdefault(one["topic"], {})[one["serial"]] = tag
        for one, entry in zip(messages, answer.entries, strict=False):
            self._recalls[one["serial"]] = entry.recall_handle
            self._transactions[one["serial"]] = entry.transaction_id
        entries = [
            self._entry_seen(entry, place=has_places(one["topic"]))
            for one, entry in zip(messages, answer.entries, strict=False)
        ]
        return {**status_seen(answer.status, self.names), "entries": entries}

    def _message(
        self,
        serial: str,
        topic: str,
        size: int = 0,
        delay_s: float | None = None,
        properties: Mapping[str, str] = {},
        **system: Any,
    ) -> Any:
        message_id = f"01{hashlib.sha256(self._run.encode()).hexdigest()[:12]}{int(serial):020X}".upper()
        message = _Message(
            topic={"name": topic},
            body=f"{serial}:".ljust(size, "x").encode() if size >= 0 else b"",
            user_properties=properties,
            system_properties={
                **{"message_id": message_id, "body_encoding": 1, "born_host": "127.0.0.1"},
                **system,
            },
        )
        now_us = wall_us()
        set_us(message.system_properties.born_timestamp, now_us)
        if delay_s is not None:
            set_us(message.system_properties.delivery_timestamp, now_us + int(delay_s * US_PER_S))
        return message

    def _entry_seen(self, entry: Any, *, place: bool) -> Seen:
        recall = None
        if entry.recall_handle:
            version, topic, broker, _, key = base64.urlsafe_b64decode(entry.recall_handle).decode().split(" ")
            recall = [version, self.names.of(topic), broker, key]
        return {
            **status_seen(entry.status, self.names),
            "message_id": entry.message_id,
            "transaction_id": entry.transaction_id,
            "offset": entry.offset if place else "<chance>",
            "recall": recall,
        }

    async def cancel(self, serial: str, topic: str, handle: str | None = None) -> Seen:
        """RecallMessage, by the handle of an earlier message or by another handle."""
        known = self._recalls.get(serial)
        if not known:
            return {"handle": None}
        answer = await self._call(
            MAKER,
            "RecallMessage",
            topic={"name": topic},
            recall_handle=known if handle is None else handle,
        )
        if monotonic() - self._sent_s[serial] > RECALL_S:
            self.arrivals.by_chance = True
        elif answer.status.code == 20_000:
            self._published.get(topic, {}).pop(serial, None)
        return {**status_seen(answer.status, self.names), "message_id": answer.message_id}

    async def decide(
        self,
        serial: str,
        topic: str,
        resolution: int,
        transaction_id: str | None = None,
        *,
        is_asked: bool = False,
    ) -> Seen:
        """EndTransaction of an earlier half message."""
        known = self._transactions.get(serial)
        if not known:
            return {"half": None}
        answer = await self._call(
            MAKER,
            "EndTransaction",
            topic={"name": topic},
            transaction_id=known if transaction_id is None else transaction_id,
            message_id=known,
            resolution=resolution,
            source=2 if is_asked else 1,
        )
        if monotonic() - self._sent_s[serial] > DECISION_S and not is_asked:
            self.arrivals.by_chance = True
        half = self._undecided.get(serial)
        if answer.status.code == 20_000 and half and transaction_id is None and resolution:
            del self._undecided[serial]
            if resolution == 1:
                self._published.setdefault(half[0], {})[serial] = half[1]
        return status_seen(answer.status, self.names)


def has_places(topic: str) -> bool:
    """Whether no message in the topic is delayed, and no queue is chosen at random."""
    return topic.startswith(("Plain", "Order"))
