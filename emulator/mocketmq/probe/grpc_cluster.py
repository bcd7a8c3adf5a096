"""A cluster that the probe reaches over gRPC, through a proxy of RocketMQ 5.

A proxy creates neither topics nor groups, and does not report which broker stores a message, so the probe
treats all brokers as one. A received message has its delivery time (``store_timestamp``), by the broker's
clock.
Source: GrpcConverter.java, GrpcValidator.java (5.3.3), ClientProcessor.java (5.5.0).
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import Any, Final

from mocketmq.calling.call import OPEN_ACCESS, ClusterAccess, ClusterError
from mocketmq.clock import US_PER_MS
from mocketmq.grpc_proxy.messages import message_class, set_us, us_of
from mocketmq.probe.cluster import Poll, ProbedBroker, ProbedCluster, ReceivedProbe, SentProbe
from mocketmq.probe.grpc_connection import OK, GrpcClientConnection, GrpcRefusedError

_IPV4, _IPV6, _DOMAIN_NAME = 1, 2, 3
_TYPES: Final = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "LITE", "PRIORITY")
_DELAY: Final = 3
_SIMPLE_CONSUMER: Final = 3
_READ: Final = (2, 4)
"""Values of AddressScheme, MessageType, ClientType and Permission."""
_MESSAGE_NOT_FOUND: Final = 40_401
_TOPIC_NOT_FOUND: Final = 40_402
_WAIT_S: Final = 15.0
_INVISIBLE_S: Final = 60
_BATCH: Final = 32
_BEAT_S: Final = 10.0
"""Real seconds between heartbeats, as in RocketMQ's clients; a proxy forgets a client after two minutes."""
_AGAIN_S: Final = 1.0

_Message = message_class("Message")


class GrpcCluster(ProbedCluster):
    """The cluster behind a proxy."""

    def __init__(
        self,
        proxy: str,
        access: ClusterAccess = OPEN_ACCESS,
    ) -> None:
        super().__init__()
        self._connection = GrpcClientConnection(proxy, access)
        self._topic = self._group = ""
        self._queues: list[Any] = []
        self._session: asyncio.Task[None] | None = None

    async def open(self, topic: str, group: str) -> None:
        """Find the topic's brokers, and receive once from each, which fixes the group's start offsets."""
        self._topic, self._group = topic, group
        where = {"topic": {"name": topic}, "endpoints": _endpoints(self._connection)}
        try:
            route = await self._connection.call("QueryRoute", **where)
        except GrpcRefusedError as error:
            if error.code == _TOPIC_NOT_FOUND:
                raise ClusterError(
                    f"topic {topic} does not exist, and a proxy does not create topics: create it with type"
                    " DELAY,"
                    f" or name another with --topic: {error}"
                ) from None
            raise ClusterError(f"the proxy returned no route for topic {topic}: {error}") from None
        queues = route.messages[0].message_queues
        types = {each for queue in queues for each in queue.accept_message_types}
        if _DELAY not in types:
            named = " and ".join(_TYPES[each - 1] for each in sorted(types) if 0 < each <= len(_TYPES))
            raise ClusterError(
                f"topic {topic} is not of type DELAY: it accepts {named or 'no'} messages;"
                " name another with --topic"
            )
        self._name_brokers(sorted({queue.broker.name for queue in queues if queue.permission in _READ}))
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._session = asyncio.create_task(self._stay(ready))
        await ready
        try:
            found = await self._connection.call("QueryAssignment", group={"name": group}, **where)
            self._queues = [each.message_queue for each in found.messages[0].assignments]
            await asyncio.gather(*(self._receive(queue, 0) for queue in self._queues))
        except GrpcRefusedError as error:
            raise ClusterError(f"group {group} cannot receive from topic {topic}: {error}") from None

    def _name_brokers(self, names: Sequence[str]) -> None:
        address = self._connection.address
        if len(names) > 1:
            self.note(
                f"brokers {', '.join(names)} are measured as one: the proxy does not say which one"
                " stores a message"
            )
        self.brokers = [ProbedBroker(names[0] if len(names) == 1 else address, address)]

    async def _stay(self, ready: "asyncio.Future[None]") -> None:
        """Keep a Telemetry session open. Resolve ``ready`` when the proxy accepts or refuses the client."""
        entry = {"topic": {"name": self._topic}, "expression": {"type": 1, "expression": "*"}}
        subscription = {"group": {"name": self._group}, "subscriptions": [entry]}
        while True:
            try:
                async with self._connection.session(client_type=_SIMPLE_CONSUMER, subscription=subscription):
                    if not ready.done():
                        ready.set_result(None)
                    while True:
                        await self._connection.call(
                            "Heartbeat", group={"name": self._group}, client_type=_SIMPLE_CONSUMER
                        )
                        await asyncio.sleep(_BEAT_S)
            except ClusterError as error:
                if not ready.done():
                    ready.set_exception(self._explain(error))
                    return
                await asyncio.sleep(_AGAIN_S)

    def _explain(self, error: ClusterError) -> ClusterError:
        """Say what to do about a missing group, which proxies refuse since 5.5.0."""
        if "group not found" not in str(error):
            return error
        return ClusterError(
            f"group {self._group} does not exist, and a proxy does not create groups: create it, or name"
            " another with"
            f" --group: {error}"
        )

    async def send(self, sent: SentProbe, size: int) -> None:
        """Send the message with its due time, which is in the past if it has no delay."""
        message = _Message(
            topic={"name": self._topic},
            body=b"x" * size,
            system_properties={"message_id": sent.key, "body_encoding": 1, "message_type": _DELAY},
        )
        set_us(message.system_properties.born_timestamp, sent.sent_us)
        set_us(message.system_properties.delivery_timestamp, sent.due_ms * US_PER_MS)
        answer = await self._connection.call("SendMessage", messages=[message])
        sent.sent_us, sent.answered_us, sent.is_stored = answer.sent_us, answer.answered_us, True

    def polls(self) -> Sequence[Poll]:
        """One poll for each broker."""
        return [partial(self._receive, queue, _WAIT_S) for queue in self._queues]

    async def _receive(self, queue: Any, wait_s: float) -> Sequence[ReceivedProbe]:
        given = {
            "group": {"name": self._group},
            "message_queue": queue,
            "filter_expression": {"type": 1, "expression": "*"},
            "batch_size": _BATCH,
            "invisible_duration": {"seconds": _INVISIBLE_S},
            "long_polling_timeout": {"seconds": int(wait_s)},
        }
        answer = await self._connection.ask("ReceiveMessage", wait_s=wait_s, many=True, **given)
        for part in answer.messages:
            if part.HasField("status") and part.status.code not in (OK, _MESSAGE_NOT_FOUND):
                raise GrpcRefusedError(part.status)
        messages = [part.message for part in answer.messages if part.HasField("message")]
        if messages:
            with suppress(ClusterError):  # the proxy redelivers the message; duplicates are recognized
                await self._acknowledge(messages)
        return [
            ReceivedProbe(
                key=system.message_id,
                at_us=answer.answered_us,
                delivered_ms=us_of(system.store_timestamp) // US_PER_MS,
                queue_id=system.queue_id,
                queue_offset=system.queue_offset,
                tells_first_delivery=system.delivery_attempt <= 1,
            )
            for system in (message.system_properties for message in messages)
        ]

    async def _acknowledge(self, messages: Sequence[Any]) -> None:
        entries = [
            {
                "message_id": each.system_properties.message_id,
                "receipt_handle": each.system_properties.receipt_handle,
            }
            for each in messages
        ]
        await self._connection.call(
            "AckMessage", group={"name": self._group}, topic={"name": self._topic}, entries=entries
        )

    async def close(self) -> None:
        """Close the session, then the connection."""
        if self._session is not None:
            self._session.cancel()
            await asyncio.gather(self._session, return_exceptions=True)
        self._connection.close()


def _endpoints(connection: GrpcClientConnection) -> dict[str, Any]:
    """The proxy's address as protobuf endpoints."""
    try:
        scheme = _IPV4 if ip_address(connection.host).version == 4 else _IPV6
    except ValueError:
        scheme = _DOMAIN_NAME
    return {"scheme": scheme, "addresses": [{"host": connection.host, "port": connection.port}]}
