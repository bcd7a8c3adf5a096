"""Membership in a group of relays, with heartbeats, assignment of queues, and queue locks.

Only the holder of a queue's lock may read and forward the queue. So two relays never forward it, even if they
disagree on the group's members. A broker drops a lock some time after the last renewal
(docs/protocol/remoting.md §2.5). The holder trusts the lock for half of that time, and only on the connection
that renewed it, because a restarted broker has lost its locks.
"""

import asyncio
import os
import secrets
import socket
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, TypeVar

from mocketmq.calling.call import ClusterError
from mocketmq.calling.name_servers import object_in
from mocketmq.clock import US_PER_MS, steady_us, wall_us
from mocketmq.relay.partition import LostPartitionError
from mocketmq.relay.rocketmq.brokers import RemoteBroker
from mocketmq.relay.rocketmq.queue import RemoteQueue
from mocketmq.remoting.wire import fastjson
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode

T = TypeVar("T")


def share_of(queues: Sequence[T], members: Collection[str], member: str) -> list[T]:
    """Return the queues of one member. Members with the same view of the group compute the same division."""
    ordered = sorted({*members, member})
    return list(queues[ordered.index(member) :: len(ordered)])


class Membership:
    """The membership of one relay; ``client_id`` is its client id."""

    def __init__(self, group: str, topics: Iterable[str]) -> None:
        self.client_id = f"{socket.gethostname()}@{os.getpid()}#{secrets.token_hex(8)}"
        self._group = group
        subscriptions = [
            {
                "topic": topic,
                "subString": "*",
                "tagsSet": [],
                "codeSet": [],
                "subVersion": wall_us() // US_PER_MS,
                "classFilterMode": False,
                "expressionType": "TAG",
            }
            for topic in topics
        ]
        consumer = {
            "groupName": group,
            "consumeType": "CONSUME_ACTIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "unitMode": False,
            "subscriptionDataSet": subscriptions,
        }
        self._heartbeat = fastjson.dumps(
            {"clientID": self.client_id, "producerDataSet": [], "consumerDataSet": [consumer]}
        )

    async def join(self, brokers: Iterable[RemoteBroker]) -> set[str]:
        """Send heartbeats to the brokers, and return the members that they report.

        Raises ClusterError if no broker answers.
        """
        answers = await asyncio.gather(*map(self._join, brokers), return_exceptions=True)
        members: set[str] = set()
        errors = []
        for each in answers:
            if isinstance(each, ClusterError):
                errors.append(each)
            elif isinstance(each, BaseException):
                raise each
            else:
                members |= each
        if len(errors) == len(answers):
            raise errors[0]
        return members

    async def _join(self, broker: RemoteBroker) -> set[str]:
        beat = await broker.requests.call(RequestCode.HEART_BEAT, body=self._heartbeat)
        if beat.code != ResponseCode.SUCCESS:
            raise ClusterError(
                f"broker {broker.name} refused this relay in group {self._group}: {beat.reason}"
            )
        listed = await broker.requests.call(
            RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": self._group}
        )
        if listed.code == ResponseCode.SYSTEM_ERROR:  # the group has no members
            return set()
        found = object_in(listed, f"broker {broker.name} did not list group {self._group}")
        return set(found.get("consumerIdList") or ())

    async def leave(self, brokers: Iterable[RemoteBroker]) -> None:
        """Unregister from every broker."""
        ext = {"clientID": self.client_id, "consumerGroup": self._group}
        await asyncio.gather(
            *(broker.requests.call(RequestCode.UNREGISTER_CLIENT, ext) for broker in brokers),
            return_exceptions=True,
        )


class Hold:
    """A queue lock, with the time until which to trust it."""

    def __init__(self, queue: RemoteQueue) -> None:
        self.queue = queue
        self._until_us = 0
        self._session = 0

    def renew(self, until_us: int, session: int) -> None:
        """Record that the broker renewed the lock."""
        self._until_us, self._session = until_us, session

    def end(self) -> None:
        """Stop trusting the lock, because it was released or another relay has it."""
        self._session = 0

    @property
    def is_believed(self) -> bool:
        """Whether no other relay can hold the lock."""
        session = self.queue.broker.requests.session
        return bool(session) and session == self._session and steady_us() < self._until_us

    def check(self) -> None:
        """Raise LostPartitionError unless the lock can be trusted."""
        if not self.is_believed:
            raise LostPartitionError(f"this relay lost the lock of {self.queue.name}")


class Locks:
    """The queue locks of one relay. A broker drops a lock after ``life_us``."""

    def __init__(self, group: str, client_id: str, life_us: int) -> None:
        self.life_us: Final = life_us
        self._who = {"consumerGroup": group, "clientId": client_id, "onlyThisBroker": False}
        self._holds: dict[RemoteQueue, Hold] = {}
        self._asking: defaultdict[RemoteBroker, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def take(self, queue: RemoteQueue) -> Hold | None:
        """Lock the queue unless another relay holds it. Raises ClusterError."""
        async with self._asking[queue.broker]:
            hold = Hold(queue)
            await self._lock(queue.broker, [hold])
            if not hold.is_believed:
                return None
            self._holds[queue] = hold
            return hold

    async def renew(self) -> None:
        """Renew all locks whose brokers answer."""
        brokers = {queue.broker for queue in self._holds}
        await asyncio.gather(*map(self._renew, brokers), return_exceptions=True)

    async def _renew(self, broker: RemoteBroker) -> None:
        async with self._asking[broker]:  # so that a renewal never overtakes a release
            holds = [hold for queue, hold in self._holds.items() if queue.broker is broker]
            if holds:
                await self._lock(broker, holds)

    async def release(self, hold: Hold) -> None:
        """Unlock the queue. Raises ClusterError."""
        async with self._asking[hold.queue.broker]:
            hold.end()
            self._holds.pop(hold.queue, None)
            await hold.queue.broker.requests.call(RequestCode.UNLOCK_BATCH_MQ, body=self._body([hold.queue]))

    async def _lock(self, broker: RemoteBroker, holds: Sequence[Hold]) -> None:
        body, asked_us = self._body(hold.queue for hold in holds), steady_us()
        answer = await broker.requests.call(RequestCode.LOCK_BATCH_MQ, body=body)
        session = broker.requests.session
        found = object_in(answer, f"broker {broker.name} did not lock queues")
        ours = {(each["topic"], int(each["queueId"])) for each in found.get("lockOKMQSet") or ()}
        for hold in holds:
            if (hold.queue.topic, hold.queue.queue_id) in ours:
                hold.renew(asked_us + self.life_us // 2, session)
            else:
                hold.end()

    def _body(self, queues: Iterable[RemoteQueue]) -> bytes:
        named: list[dict[str, Any]] = [
            {"brokerName": each.broker.name, "queueId": each.queue_id, "topic": each.topic} for each in queues
        ]
        return fastjson.dumps(self._who | {"mqSet": named})
