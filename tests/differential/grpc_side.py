"""Operations of consuming gRPC clients, in addition to the operations of :mod:`grpc_producing`."""

import asyncio
from time import monotonic
from typing import Any

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.grpc_proxy.messages import us_of
from tests.differential.grpc_producing import MAKER, SOON_S, GrpcProducingSide, has_places
from tests.differential.grpc_seen import message_seen, status_seen
from tests.differential.op import Seen

VISIBLE_S = 120.0
"""Maximum wait in real seconds for messages that are delayed by seconds or redelivered."""
EMPTY_S = 0.5
"""Wait time of a receive that should find nothing."""
LAPSE_S = 10
"""Shortest invisible time that a client may request."""


class GrpcSide(GrpcProducingSide):
    """One gRPC server while a sequence is played on it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._had: dict[tuple[str, str], set[str]] = {}  # by group and topic
        self._handles: dict[tuple[str, str], list[str]] = {}  # by group and number, the newest last
        self._places: dict[tuple[str, str], tuple[int, int]] = {}  # queue and offset where it was received

    async def receive(self, group: str, topic: str, **fields: Any) -> Seen:
        """Receive until the group has had every message of the topic that it can have, then once more."""
        client, key = await self._speaker(group), (group, topic)
        had, until = self._had.setdefault(key, set()), monotonic() + VISIBLE_S
        found, status = [], None
        while True:
            missing = self._wanted(group, topic) - had
            wait_s = 5.0 if missing else EMPTY_S
            status, messages = await client.try_receive(
                group, topic, invisible_s=600, wait_s=wait_s, **fields
            )
            found += messages
            had |= {_serial(message) for message in messages}
            if not messages and (not missing or monotonic() > until or status.code != 40_401):
                break
        for message in found:
            system = message.system_properties
            self._handles.setdefault((group, _serial(message)), []).append(system.receipt_handle)
            self._places[group, _serial(message)] = system.queue_id, system.queue_offset
        in_order = [_serial(message) for message in found if _is_in_place(message) and "Four" not in topic]
        found.sort(key=lambda message: int(_serial(message)))
        seen = [message_seen(message, self.names, place=has_places(topic)) for message in found]
        return {**status_seen(status, self.names), "messages": seen, "order": self._order(group, in_order)}

    def _order(self, group: str, serials: list[str]) -> Seen:
        """Return the order of arrival in each queue."""
        queues: dict[str, list[str]] = {}
        for serial in serials:
            queues.setdefault(str(self._places[group, serial][0]), []).append(serial)
        return {"queues": sorted(queues.values())}

    def _wanted(self, group: str, topic: str) -> set[str]:
        tags = self._groups.get(group)
        sent = self._published.get(topic, {})
        return {serial for serial, tag in sent.items() if tags is None or tag in tags}

    async def odd_receive(self, group: str, topic: str, invisible_s: float = 600, **fields: Any) -> Seen:
        """A ReceiveMessage that should be refused."""
        client = await self._speaker(self.real("All~"))
        status, messages = await client.try_receive(
            group, topic, invisible_s=int(invisible_s), wait_s=EMPTY_S, **fields
        )
        return {**status_seen(status, self.names), "messages": [_serial(each) for each in messages]}

    def _handle(self, group: str, serial: str, which: int) -> str | None:
        handles = self._handles.get((group, serial), [])
        return handles[which] if -len(handles) <= which < len(handles) else None

    async def settle(
        self,
        group: str,
        topic: str,
        serials: list[str],
        which: int = -1,
        handle: str | None = None,
        of: str | None = None,
    ) -> Seen:
        """AckMessage for received messages, possibly received by the group ``of``, or by another handle."""
        given = [(serial, self._handle(of or group, serial, which)) for serial in serials]
        entries = [
            {"message_id": serial, "receipt_handle": handle or known} for serial, known in given if known
        ]
        if serials and not entries:
            return {"handle": None}
        answer = await self._call(
            group, "AckMessage", group={"name": group}, topic={"name": topic}, entries=entries
        )
        seen = [
            {
                **status_seen(entry.status, self.names),
                "message_id": entry.message_id,
                "same": entry.receipt_handle == sent["receipt_handle"],
            }
            for entry, sent in zip(answer.entries, entries, strict=False)
        ]
        return {**status_seen(answer.status, self.names), "entries": seen}

    async def hide(
        self,
        group: str,
        topic: str,
        serial: str,
        ms: int,
        which: int = -1,
        handle: str | None = None,
        of: str | None = None,
    ) -> Seen:
        """ChangeInvisibleDuration. A duration below the default makes the message visible again soon."""
        known = self._handle(of or group, serial, which)
        if known is None:
            return {"handle": None}
        duration = {"seconds": ms // 1_000, "nanos": ms % 1_000 * 1_000_000}
        answer = await self._call(
            group,
            "ChangeInvisibleDuration",
            group={"name": group},
            topic={"name": topic},
            receipt_handle=handle or known,
            message_id=serial,
            invisible_duration=duration,
        )
        is_new = answer.receipt_handle not in ("", handle or known)
        if answer.status.code == 20_000:
            if answer.receipt_handle:
                self._handles[group, serial].append(answer.receipt_handle)
            if ms * US_PER_MS < SOON_S * US_PER_S:
                self._had[group, topic].discard(serial)
        return {**status_seen(answer.status, self.names), "new": is_new}

    async def forward(
        self, group: str, topic: str, serial: str, which: int = -1, handle: str | None = None
    ) -> Seen:
        """ForwardMessageToDeadLetterQueue."""
        known = self._handle(group, serial, which)
        if known is None:
            return {"handle": None}
        answer = await self._call(
            group,
            "ForwardMessageToDeadLetterQueue",
            group={"name": group},
            topic={"name": topic},
            receipt_handle=handle or known,
            message_id=serial,
            delivery_attempt=1,
            max_delivery_attempts=1,
        )
        if answer.status.code == 20_000:
            self._published.setdefault(f"%DLQ%{group}", {})[serial] = self._published[topic].get(serial, "")
        return status_seen(answer.status, self.names)

    async def lapse(self, group: str, topic: str, serial: str) -> Seen:
        """Let the invisible time of a message expire, which invalidates its old handle."""
        await self._stream_of_group(group)
        client = await self._speaker(group)
        times: list[int] = []
        async with asyncio.timeout(VISIBLE_S):
            while len(times) < 2:
                status, messages = await client.try_receive(group, topic, invisible_s=LAPSE_S, wait_s=5)
                if status.code not in (20_000, 40_401):
                    return {**status_seen(status, self.names)}
                for message in messages:
                    if _serial(message) == serial:
                        handle = message.system_properties.receipt_handle
                        self._handles.setdefault((group, serial), []).append(handle)
                        times.append(message.system_properties.delivery_attempt)
        got_s = monotonic()
        settled = [await self.settle(group, topic, [serial], which) for which in (0, 1)]
        self.arrivals.by_chance |= monotonic() - got_s > LAPSE_S / 2  # otherwise it may have expired again
        return {"times": times, "settled": settled}

    async def _stream_of_group(self, group: str) -> None:
        await self.settings(group, client_type=3, subscription={"group": {"name": group}})

    async def in_order(self, group: str, topic: str, acked: int, ms: int) -> Seen:
        """Receive in order; ack ``acked`` messages of each queue, return the rest, and receive them again."""
        first = await self.receive(group, topic)
        queues: dict[int, list[tuple[int, str]]] = {}
        for message in first["messages"]:
            queue_id, offset = self._places[group, message["serial"]]
            queues.setdefault(queue_id, []).append((offset, message["serial"]))
        again: list[Seen] = []
        for queue_id in sorted(queues):
            serials = [serial for _, serial in sorted(queues[queue_id])]
            if serials[:acked]:
                again.append(await self.settle(group, topic, serials[:acked]))
            again += [await self.hide(group, topic, serial, ms) for serial in serials[acked:]]
        second = await self.receive(group, topic)
        left = [message["serial"] for message in second["messages"]]
        last = await self.settle(group, topic, left) if left else {}
        return {"first": first, "again": again, "second": second, "last": last}

    async def orphan(self, serial: str, resolution: int) -> Seen:
        """Wait for the check-back of a half message, and decide it."""
        topic, _ = self._undecided[serial]
        async with asyncio.timeout(VISIBLE_S):
            while True:
                command = await self._streams[MAKER].command()
                question = command.recover_orphaned_transaction_command
                if _serial(question.message) == serial:
                    break
        self._transactions[serial] = question.transaction_id
        seen = message_seen(question.message, self.names)
        ended = await self.decide(serial, topic, resolution, is_asked=True)
        return {"message": seen, "ended": ended, "id": question.transaction_id}


def _serial(message: Any) -> str:
    return str(message.body.decode().partition(":")[0])


def _is_in_place(message: Any) -> bool:
    """Whether the message is where it was sent, that is neither delayed, nor committed, nor redelivered."""
    system = message.system_properties
    is_late = us_of(system.delivery_timestamp) or system.message_type == 4
    return system.delivery_attempt == 1 and not is_late
