"""The connected gRPC clients by Telemetry stream, and the broker's questions to them."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from mocketmq.access.accounts import Account
from mocketmq.broker.broker import Broker
from mocketmq.broker.registry.clients import (
    CLUSTERING,
    ClientAnswer,
    Clients,
    ConsumerData,
    Heartbeat,
    OffsetReset,
    PushedReply,
    Subscription,
)
from mocketmq.clock import US_PER_MS, US_PER_S, steady_us, wall_us
from mocketmq.errors import ClientFailedError, ClientOfflineError
from mocketmq.grpc_proxy.faulty import DOOR
from mocketmq.grpc_proxy.message_out import message_out
from mocketmq.grpc_proxy.questions import Command, Questions, running_info
from mocketmq.message.message import StoredMessage
from mocketmq.rocketmq_versions import V5_0_0
from mocketmq.store.queue import Queue

PRODUCER, PUSH_CONSUMER, SIMPLE_CONSUMER = 1, 2, 3
LITE_CONSUMERS: Final = (5, 6)
"""Values of ClientType."""
REQUEST_TIMEOUT_US: Final = 3 * US_PER_S
"""The SDKs' own default."""
BEAT_US: Final = 60 * US_PER_S
"""Real time that a client without a Telemetry stream lives after its last heartbeat."""


class GrpcClient:
    """A client's Telemetry stream: the broker's channel to it. ``commands`` are to be written to it."""

    door = DOOR

    def __init__(self, broker: Broker, client_id: str, language: str, release: str, remote: str) -> None:
        self._broker = broker
        self.account: Account | None = None  # it needs no permissions
        self._began_us = wall_us()
        self.client_id = client_id
        self.language = language
        self.release = release  # of its SDK
        self.remote = remote
        self.request_timeout_us = REQUEST_TIMEOUT_US
        self.topics: list[str] = []  # to which it produces
        self.is_lite = False  # it consumes lite topics, which do not exist here
        self.commands: asyncio.Queue[Any] = asyncio.Queue()
        self.questions = Questions(client_id, self.commands.put_nowait)

    def notify_members_changed(self, group: str) -> None:
        """Do nothing: every member gets messages of all queues."""

    def reset_offsets(self, reset: OffsetReset, language: str) -> None:
        """Do nothing: only the broker keeps the group's offsets."""

    def check_transaction(self, half: StoredMessage, queue: Queue) -> None:
        """Ask the producer about its half message. Its answer comes as EndTransaction."""
        command = Command()
        recover = command.recover_orphaned_transaction_command
        recover.message.CopyFrom(message_out(self._broker, half, queue.topic))
        recover.transaction_id = half.unique_key
        self.commands.put_nowait(command)

    async def push_reply(self, reply: PushedReply) -> None:  # noqa: ARG002 - of the broker's interface
        """Raise ClientFailedError: the protocol has no replies."""
        raise self._unable("take replies")

    async def running_info(self, group: str, client_id: str, *, with_stacks: bool) -> ClientAnswer:
        """The client's settings and, as upstream, its thread stacks, which it is asked for."""
        member = self._broker.registry.clients.consumer(group, client_id)
        if member is None:
            raise ClientOfflineError(f"The Consumer <{group}> <{client_id}> not online")
        stacks = await self.questions.stacks() if with_stacks else None
        return running_info(member.consumers[group], self.release, self._began_us // US_PER_MS, stacks)

    async def consume(self, group: str, client_id: str, message: StoredMessage, queue: Queue) -> ClientAnswer:  # noqa: ARG002
        """Have the client verify the message, that is, consume it now."""
        return await self.questions.verify(message_out(self._broker, message, queue.topic))

    async def consumed_offsets(self, group: str, topic: str) -> ClientAnswer:  # noqa: ARG002
        """Raise ClientFailedError: gRPC clients keep no offsets."""
        raise self._unable("tell its offsets")

    def _unable(self, what: str) -> ClientFailedError:
        return ClientFailedError(f"{self.client_id} is a gRPC client, which cannot {what}")


class GrpcClients:
    """All of them, known to the broker's registry as well."""

    def __init__(self, registry: Clients) -> None:
        self._registry = registry
        self._streams: dict[str, list[GrpcClient]] = {}  # by client id; the newest is the last
        self._beats: dict[str, int] = {}

    def produces(self, client: GrpcClient, topics: Sequence[str]) -> None:
        """Register a producer of these topics, by which names upstream's proxy knows producer groups."""
        client.topics = list(topics)
        self._register(client, producers=client.topics)

    def consumes(
        self, client: GrpcClient, kind: int, group: str, subscriptions: Sequence[Subscription]
    ) -> None:
        """Register a consumer of this ClientType, of whole topics."""
        client.is_lite = False
        consume_type = "CONSUME_ACTIVELY" if kind == SIMPLE_CONSUMER else "CONSUME_PASSIVELY"
        data = ConsumerData(group, consume_type, CLUSTERING, "CONSUME_FROM_FIRST_OFFSET", subscriptions)
        self._register(client, consumers=[data])

    def wants_lite_topics(self, client: GrpcClient) -> None:
        """Note a consumer of lite topics. It joins no group, as it is given no message."""
        client.is_lite = True
        self._note(client)

    def _note(self, client: GrpcClient) -> None:
        streams = self._streams.setdefault(client.client_id, [])
        if client not in streams:
            streams.append(client)

    def _register(
        self, client: GrpcClient, *, producers: Sequence[str] = (), consumers: Sequence[ConsumerData] = ()
    ) -> None:
        self._note(client)
        self._registry.heartbeat(
            client,
            Heartbeat(
                client.client_id,
                client.language,
                V5_0_0,
                producers=producers,
                consumers=consumers,
                release=client.release,
            ),
        )

    def sends_to(self, client_id: str, topic: str) -> None:
        """Note a topic that a producer has begun to use after it said to which it produces."""
        streams = self._streams.get(client_id)
        if streams and topic not in streams[-1].topics:
            self.produces(streams[-1], [*streams[-1].topics, topic])

    def request_timeout_us(self, client_id: str) -> int:
        """What a client says of how long its requests may take, if it is connected."""
        streams = self._streams.get(client_id)
        return streams[-1].request_timeout_us if streams else REQUEST_TIMEOUT_US

    def is_lite(self, client_id: str) -> bool:
        """Whether the client said that it consumes lite topics."""
        streams = self._streams.get(client_id)
        return bool(streams and streams[-1].is_lite)

    def owner(self, client_id: str) -> str | None:
        """The access key that registered a connected client, if it needs one."""
        streams = self._streams.get(client_id)
        account = streams[0].account if streams else None
        return None if account is None else account.access_key

    def beats(self, client_id: str) -> None:
        """Note a heartbeat."""
        now_us = steady_us()
        self._beats.pop(client_id, None)
        self._beats[client_id] = now_us  # the oldest is the first
        for known, seen_us in list(self._beats.items()):
            if now_us - seen_us < BEAT_US:
                break
            del self._beats[known]

    def is_alive(self, client_id: str) -> bool:
        """Whether the client has a stream or sent a recent heartbeat."""
        return client_id in self._streams or steady_us() - self._beats.get(client_id, -BEAT_US) < BEAT_US

    def gone(self, client: GrpcClient) -> bool:
        """Remove an ended stream. Returns whether it was the client's last."""
        client.questions.end()
        self._registry.gone(client)
        streams = self._streams.get(client.client_id, [])
        if client in streams:
            streams.remove(client)
            if streams:
                return False
            del self._streams[client.client_id]
        self._beats.pop(client.client_id, None)
        return True
