"""Sends the broker's own requests to a client (docs/protocol/remoting.md §2.6)."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from mocketmq.broker.consuming.selection import MemoryReservation
from mocketmq.broker.name_servers import NameServerView
from mocketmq.broker.registry.clients import ClientAnswer, OffsetReset, PushedReply
from mocketmq.clock import US_PER_MS
from mocketmq.errors import ClientFailedError, ClientOfflineError, ClientTimeoutError, InvalidArgumentError
from mocketmq.message.broker_share import ALONE, BrokerShare
from mocketmq.message.message import StoredMessage, Template
from mocketmq.message.message_id import offset_message_id
from mocketmq.remoting.lane import Lane
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.fastjson import dumps, loads, object_keys
from mocketmq.remoting.wire.record import encode_record
from mocketmq.store.queue import Queue

CALL_S: Final = 10.0
"""Time limit for a client's response, in real seconds, as in RocketMQ."""
STATUS_S: Final = 5.0
"""Time limit for a client's report of its offsets, in real seconds (Broker2Client.java, 4.9.8)."""


@dataclass(eq=False, repr=False)
class RemotingChannel:
    """A client's connection to a broker, its slave or a name server.

    ``remote`` is the client's ``host:port``, and ``advertised`` is the ``host:port`` at which the client can
    reach the broker. ``store_host`` is ``advertised`` as IPv4, for records and message ids. ``lane`` orders
    the requests. ``send`` writes a command. ``hang_up`` closes the connection because of an injected fault,
    whose name it takes. ``load`` starts to count the memory of the messages that the current request reads.
    ``share`` identifies the broker, with its share of each topic's queues. For a connection to
    ``name_server``, it is the first broker's. ``is_slave`` means that the client is connected to the broker's
    slave.
    """

    door = "remoting"
    call_s = CALL_S
    status_s = STATUS_S

    send: Callable[[Command], None]
    remote: str
    advertised: str
    store_host: str
    hang_up: Callable[[str], None]
    load: Callable[[], MemoryReservation]
    share: BrokerShare = ALONE
    name_server: NameServerView | None = None
    is_slave: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self.lane = Lane()
        self._opaques = itertools.count()
        self._calls: dict[int, asyncio.Future[Command]] = {}
        self._has_ended = False

    @property
    def broker_index(self) -> int:
        """The index of the broker that the client is connected to; negative for a slave."""
        return -1 - self.share.position if self.is_slave else self.share.position

    def notify_members_changed(self, group: str) -> None:
        """Make the client rebalance its queues of the group."""
        self.ask(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})

    def reset_offsets(self, reset: OffsetReset, language: str) -> None:
        """Make the client reset its offsets in queues of the connected broker, if the reset includes any.

        An empty table is not sent, because Java clients would suspend themselves for seconds even then. C++
        clients need a different encoding of the table.
        """
        ext = {
            "topic": reset.topic,
            "group": reset.group,
            "timestamp": str(reset.timestamp_ms),
            "isForce": str(reset.is_forced).lower(),
        }
        offsets = list(queue_offsets(reset, self.share))
        if not offsets or self.is_slave:
            return
        table: object = object_keys(offsets)
        if language == "CPP":
            table = [{**queue, "offset": offset} for queue, offset in offsets]
        self.ask(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext, dumps({"offsetTable": table}))

    def check_transaction(self, half: StoredMessage, queue: Queue) -> None:
        """Ask a producer about its half message. The producer answers with END_TRANSACTION."""
        ext = {
            "topic": queue.topic,
            "tranStateTableOffset": str(half.queue_offset),
            "commitLogOffset": str(half.log_offset),
            "msgId": half.unique_key,
            "transactionId": half.unique_key,
            "offsetMsgId": offset_message_id(self.store_host, half.log_offset),
        }
        record = encode_record(half, queue.topic, self._queue_id(queue), self.store_host)
        self.ask(RequestCode.CHECK_TRANSACTION_STATE, ext, record)

    def reconnect(self) -> None:
        """Raise ClientOfflineError, because the protocol has no such request."""
        raise ClientOfflineError(
            f"the client at {self.remote} uses remoting; only clients over gRPC can be told to reconnect"
        )

    async def push_reply(self, reply: PushedReply) -> None:
        """Send the client the reply to its request message."""
        message, template = reply.message, reply.message.template or Template("", 0)
        ext = {
            "producerGroup": reply.producer_group,
            "topic": message.topic,
            "defaultTopic": template.topic,
            "defaultTopicQueueNums": template.queues,
            "queueId": None
            if message.queue_id is None
            else self.share.queue_id(message.topic, message.queue_id),
            "sysFlag": message.sys_flag,
            "bornTimestamp": (message.born_us or reply.store_us) // US_PER_MS,
            "flag": message.flag,
            "properties": reply.properties,
            "reconsumeTimes": message.reconsume_times,
            "unitMode": str(reply.is_unit_mode).lower(),
            "bornHost": message.born_host,
            "storeHost": self.store_host,
            "storeTimestamp": reply.store_us // US_PER_MS,
        }
        texts = {name: str(value) for name, value in ext.items()}
        await self.call(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, texts, message.body)

    async def running_info(self, group: str, client_id: str, *, with_stacks: bool) -> ClientAnswer:
        """Ask a consumer for its current queues, rates and threads."""
        ext = {"consumerGroup": group, "clientId": client_id, "jstackEnable": str(with_stacks).lower()}
        return _client_answer(await self.call(RequestCode.GET_CONSUMER_RUNNING_INFO, ext))

    async def consume(self, group: str, client_id: str, message: StoredMessage, queue: Queue) -> ClientAnswer:
        """Make a consumer consume a message now, and return the result."""
        ext = {
            "consumerGroup": group,
            "clientId": client_id,
            "msgId": offset_message_id(self.store_host, message.log_offset),
            "brokerName": self.share.name_of(queue.queue_id),
            "topic": queue.topic,
        }
        record = encode_record(message, queue.topic, self._queue_id(queue), self.store_host)
        return _client_answer(await self.call(RequestCode.CONSUME_MESSAGE_DIRECTLY, ext, record))

    def _queue_id(self, queue: Queue) -> int:
        return self.share.queue_id(queue.topic, queue.queue_id)

    async def consumed_offsets(self, group: str, topic: str) -> ClientAnswer:
        """Ask a consumer for the offsets that it has reached in its queues of a topic."""
        ext = {"topic": topic, "group": group}
        return _client_answer(
            await self.call(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext, timeout_s=self.status_s)
        )

    def ask(self, code: RequestCode, ext: dict[str, str], body: bytes = b"") -> None:
        """Send the client a request without waiting for a response, unless the connection has ended."""
        if self._has_ended:
            return
        self.send(Command.oneway(code, next(self._opaques), ext, body))

    async def call(
        self, code: RequestCode, ext: dict[str, str], body: bytes = b"", timeout_s: float | None = None
    ) -> Command:
        """Send the client a request, and return its response. ``timeout_s`` defaults to ``call_s``.

        Raises ClientFailedError if the client refuses or disconnects, ClientTimeoutError if it does not
        respond.
        """
        if self._has_ended:
            raise self._gone()
        timeout_s = self.call_s if timeout_s is None else timeout_s
        opaque = next(self._opaques)
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._calls[opaque] = answer
        try:
            self.send(Command.request(code, opaque, ext, body))
            async with asyncio.timeout(timeout_s):
                command = await answer
        except TimeoutError:
            raise ClientTimeoutError(f"{self.remote} did not answer within {timeout_s:g} s") from None
        finally:
            del self._calls[opaque]
        if command.code != ResponseCode.SUCCESS:
            raise ClientFailedError(command.remark or f"{self.remote} answered with code {command.code}")
        return command

    def answered(self, answer: Command) -> None:
        """Pass a client's response to the request waiting for it, if any."""
        call = self._calls.get(answer.opaque)
        if call is not None and not call.done():
            call.set_result(answer)

    def end(self) -> None:
        """Fail the waiting requests, because the connection has ended."""
        self._has_ended = True
        for call in self._calls.values():
            if not call.done():
                call.set_exception(self._gone())

    def let_go(self) -> None:
        """Drop the references to the ended connection, after its last request.

        Without this, only the garbage collector would free the connection, which refers to this object.
        """
        del self.send, self.hang_up, self.load

    def _gone(self) -> ClientFailedError:
        return ClientFailedError(f"the connection of {self.remote} ended")


def _client_answer(answer: Command) -> ClientAnswer:
    try:
        return ClientAnswer(answer.body, loads(answer.body))
    except InvalidArgumentError:
        return ClientAnswer(answer.body, None)


def queue_offsets(reset: OffsetReset, share: BrokerShare) -> Iterator[tuple[dict[str, str | int], int]]:
    """Yield each queue of the broker, in the form that clients use, with its new offset."""
    for number, offset in reset.offsets.items():
        if share.has_queue(reset.topic, number):
            yield queue_name(share, reset.topic, number), offset


def queue_name(share: BrokerShare, topic: str, number: int) -> dict[str, str | int]:
    """A queue of the broker in the form that clients use."""
    return {"brokerName": share.name, "queueId": share.queue_id(topic, number), "topic": topic}
