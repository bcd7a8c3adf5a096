"""A cluster that the probe reaches over remoting: finds brokers, prepares the probe's topic and group.

Source: docs/protocol/remoting.md.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from mocketmq.calling.call import OPEN_ACCESS, ClusterAccess, ClusterError, NoAnswerError
from mocketmq.calling.connection import Answer, ClientConnection, open_group
from mocketmq.calling.headers import STORED, pull_ext, send_ext, topic_ext
from mocketmq.calling.name_servers import NameServers, object_in
from mocketmq.clock import US_PER_S, steady_us
from mocketmq.message.message_id import log_offset_of
from mocketmq.message.properties import (
    DELAY,
    START_DELIVER_TIME,
    TIMER_DELIVER_MS,
    UNIQ_KEY,
    WAIT,
)
from mocketmq.probe.cluster import Poll, ProbedBroker, ProbedCluster, ReceivedProbe, SentProbe
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.record import WireRecord, decode_properties, decode_records
from mocketmq.schedule.level_table import LevelTable

_FIGURES_S: Final = 10.0
_POLL_S: Final = 0.1
_SUSPEND_MS: Final = 15_000


@dataclass
class Master(ProbedBroker):
    """A broker, with the queues of the probe's topic. Pulls have a separate connection."""

    requests: ClientConnection
    pulls: ClientConnection
    write_queues: int
    read_queues: int
    sent: int = 0

    def next_queue(self) -> int:
        """The queue for the next message, in rotation."""
        self.sent += 1
        return self.sent % min(self.write_queues, self.read_queues)


class RemotingCluster(ProbedCluster):
    """The cluster behind a name server."""

    def __init__(
        self,
        name_servers: str,
        access: ClusterAccess = OPEN_ACCESS,
    ) -> None:
        super().__init__()
        self._topic = self._group = ""
        self._masters: dict[str, Master] = {}
        self._polls: list[Poll] = []
        self._connect = partial(ClientConnection, access=access)
        self._name_servers = NameServers(name_servers, self._connect, self.note)

    async def open(self, topic: str, group: str) -> None:
        """Find the topic's brokers, and create topic and group if they do not exist. Raises ClusterError."""
        self._topic, self._group = topic, group
        route = await self._name_servers.route(topic)
        if route is None:
            await self._make_topic(topic)
            route = await self._name_servers.new_route(topic)
        for name, address, readable, writable in route:
            if readable and writable:
                connections = self._connect(address), self._connect(address)
                self._masters[name] = Master(name, address, *connections, writable, readable)
        if not self._masters:
            raise ClusterError(f"no broker with a master allows both writing and reading topic {topic}")
        self.brokers = list(self._masters.values())
        await self._ask_brokers()
        for master in self._masters.values():
            end = await self._end_of(master, 0)
            advice = "name an existing group with --group"
            await open_group(master.requests, master.name, group, topic, end, advice)
            for queue_id in range(master.read_queues):
                queue = _Queue(master, queue_id, await self._end_of(master, queue_id))
                self._polls.append(partial(self._pull, queue))

    async def close(self) -> None:
        brokers = [each for master in self._masters.values() for each in (master.requests, master.pulls)]
        for connection in brokers:
            await connection.close()
        await self._name_servers.close()

    # Send

    async def send(self, sent: SentProbe, size: int) -> None:
        """Send the message. If it is delayed, ask the broker for its store time."""
        master = self._masters[sent.broker.name]
        properties = {UNIQ_KEY: sent.key, WAIT: "true"} | _delaying(sent)
        ext = send_ext(self._topic, self._group, master.next_queue(), sent.sent_us, properties)
        answer = await master.requests.call(RequestCode.SEND_MESSAGE, ext, bytes(size))
        if answer.code not in STORED:
            raise ClusterError(answer.reason)
        sent.sent_us, sent.answered_us, sent.is_stored = answer.sent_us, answer.answered_us, True
        sent.parked_offset = log_offset_of(answer.ext.get("msgId", "")) if sent.delay else None
        if sent.parked_offset is not None:
            await self._look_at_parked(master, sent)

    async def _look_at_parked(self, master: Master, sent: SentProbe) -> None:
        """Ask the broker for the store time of the delayed message, from which a level's delay counts."""
        answer = await master.requests.call(
            RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(sent.parked_offset)}
        )
        if answer.code == ResponseCode.SUCCESS:
            for record in decode_records(answer.body):
                if _key_of(record) == sent.key:
                    sent.stored_ms = record.store_ms

    # Receive

    def polls(self) -> Sequence[Poll]:
        """One poll for each queue."""
        return self._polls

    async def _pull(self, queue: "_Queue") -> Sequence[ReceivedProbe]:
        ext = pull_ext(self._topic, self._group, queue.queue_id, queue.offset, _SUSPEND_MS)
        answer = await queue.master.pulls.call(RequestCode.PULL_MESSAGE, ext, wait_s=_SUSPEND_MS / 1_000)
        records = decode_records(answer.body) if answer.code == ResponseCode.SUCCESS else []
        queue.offset = int(answer.ext["nextBeginOffset"])
        return [
            ReceivedProbe(
                key=_key_of(record),
                at_us=answer.answered_us,
                delivered_ms=record.store_ms,
                queue_id=record.queue_id,
                queue_offset=record.queue_offset,
                log_offset=record.log_offset,
            )
            for record in records
        ]

    async def _end_of(self, master: Master, queue_id: int) -> int:
        """The offset for the next message of a queue. Raises ClusterError."""
        answer = await master.requests.call(
            RequestCode.GET_MAX_OFFSET, {"topic": self._topic, "queueId": str(queue_id)}
        )
        if answer.code != ResponseCode.SUCCESS:
            raise ClusterError(
                f"broker {master.name} did not report the end of topic {self._topic}: {answer.reason}"
            )
        return int(answer.ext["offset"])

    # Prepare

    async def _make_topic(self, topic: str) -> None:
        for name, address in (await self._name_servers.masters()).items():
            connection = self._connect(address)
            try:
                made = await connection.call(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_ext(topic, queues=1))
            except NoAnswerError as error:
                raise _out_of_reach(name, error) from None
            finally:
                await connection.close()
            if made.code != ResponseCode.SUCCESS:
                raise ClusterError(
                    f"topic {topic} does not exist, and broker {name} did not create it: {made.reason};"
                    " name an existing topic with --topic"
                )

    async def _ask_brokers(self) -> None:
        """Read the brokers' versions and delay levels, if that is permitted."""
        tables = set()
        for broker in self._masters.values():
            try:
                info = await _figures(broker)
                config = await broker.requests.call(RequestCode.GET_BROKER_CONFIG)
            except NoAnswerError as error:
                raise _out_of_reach(broker.name, error) from None
            if info.code == ResponseCode.SUCCESS:
                figures = object_in(info, "no figures").get("table", {})
                broker.version = str(figures.get("brokerVersionDesc", broker.version))
            for line in config.body.decode("utf-8", "replace").splitlines():
                name, _, value = line.partition("=")
                if name.strip() == "messageDelayLevel":
                    tables.add(value.strip())
        if len(tables) > 1:
            raise ClusterError(f"the brokers differ in their delay levels: {'; '.join(sorted(tables))}")
        if tables:
            self.table = LevelTable.parse(tables.pop())
        else:
            self.notes.append(f"no broker reported its delay levels; assuming {self.table.text}")


@dataclass
class _Queue:
    """A queue, and the offset from which to pull next."""

    master: Master
    queue_id: int
    offset: int


def _delaying(sent: SentProbe) -> dict[str, str]:
    """The property that delays the message, in a form that the broker supports."""
    if sent.delay is None:
        return {}
    if sent.delay.level is not None:
        return {DELAY: str(sent.delay.level)}
    name = TIMER_DELIVER_MS if sent.broker.version.startswith("V5") else START_DELIVER_TIME
    return {name: str(sent.due_ms)}


def _key_of(record: WireRecord) -> str:
    return decode_properties(record.properties).get(UNIQ_KEY, "")


async def _figures(broker: Master) -> Answer:
    """The broker's runtime info. A 4.9 broker fails until its first sample, a second after its start."""
    until_us = steady_us() + round(_FIGURES_S * US_PER_S)
    while True:
        answer = await broker.requests.call(RequestCode.GET_BROKER_RUNTIME_INFO)
        if answer.code != ResponseCode.SYSTEM_ERROR or steady_us() > until_us:
            return answer
        await asyncio.sleep(_POLL_S)


def _out_of_reach(name: str, error: NoAnswerError) -> NoAnswerError:
    return NoAnswerError(f"the name server lists broker {name}, but {error}")
