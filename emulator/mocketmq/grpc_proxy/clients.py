"""The registry of connected gRPC clients by Telemetry stream, and the broker's requests to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mocketmq.access.accounts import Account
from mocketmq.broker.broker import Broker
from mocketmq.broker.registry.brokers import RegisteredBroker
from mocketmq.broker.registry.clients import (
    CLUSTERING,
    LITE_SELECTIVE,
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
from mocketmq.grpc_proxy.command_queue import CommandQueue
from mocketmq.grpc_proxy.fault_injection import DOOR
from mocketmq.grpc_proxy.message_out import message_out
from mocketmq.grpc_proxy.questions import Command, Questions, running_info
from mocketmq.message.message import StoredMessage
from mocketmq.rocketmq_versions import V5_0_0
from mocketmq.store.queue import Queue

PRODUCER, PUSH_CONSUMER, SIMPLE_CONSUMER = 1, 2, 3
LITE_PUSH_CONSUMER, LITE_SIMPLE_CONSUMER = 5, 6
"""Values of ClientType."""
REQUEST_TIMEOUT_US: Final = 3 * US_PER_S
"""Default request timeout of the SDKs."""
BEAT_US: Final = 60 * US_PER_S
"""How long a client without a Telemetry stream stays registered after its last heartbeat, in real time."""
RECONNECT_US: Final = 30 * US_PER_S
"""How soon a client that was told to reconnect ends its Telemetry stream for that reason, in real time."""


@dataclass(eq=False, repr=False)
class GrpcClient:
    """A client's Telemetry stream, which carries the broker's requests.

    While the client reads too little of its ``commands``, it does not get further requests.
    """

    door = DOOR

    _broker: Broker
    client_id: str
    language: str
    release: str  # version of the client's SDK
    remote: str
    commands: CommandQueue
    _local: RegisteredBroker | None = None

    def __post_init__(self) -> None:
        self.account: Account | None = None  # None: the client needs no permissions
        self._began_us = wall_us()
        self.request_timeout_us = REQUEST_TIMEOUT_US
        self.topics: list[str] = []  # topics that the client produces to
        self.properties: Mapping[str, str] = {}  # the application's description of itself
        self.is_lite = False  # whether the client consumes lite topics
        self.told_us: int | None = None  # when the client was told to reconnect, in real time
        self.questions = Questions(self.client_id, self.commands.put)

    @property
    def broker_index(self) -> int | None:
        """The index of the endpoint's broker; None for the cluster's endpoint, which serves all brokers."""
        return None if self._local is None else self._local.share.position

    def notify_members_changed(self, group: str) -> None:
        """Do nothing, because every member gets messages of all queues."""

    def reset_offsets(self, reset: OffsetReset, language: str) -> None:
        """Do nothing, because only the broker keeps the group's offsets."""

    def check_transaction(self, half: StoredMessage, queue: Queue) -> None:
        """Ask the producer about its half message. The producer answers with EndTransaction."""
        command = Command()
        recover = command.recover_orphaned_transaction_command
        recover.message.CopyFrom(message_out(self._broker, half, queue.topic))
        recover.transaction_id = half.unique_key
        self.commands.put(command)

    def reconnect(self) -> None:
        """Tell the client to reconnect."""
        self.told_us = steady_us()
        self.questions.reconnect()

    def notify_unsubscribed(self, lite_topic: str) -> None:
        """Tell the client that another client of its group has taken over a lite topic."""
        command = Command()
        command.notify_unsubscribe_lite_command.lite_topic = lite_topic
        self.commands.put(command)

    @property
    def is_reconnecting(self) -> bool:
        """Whether the client was told to reconnect, and still has time to reconnect."""
        return self.told_us is not None and steady_us() - self.told_us < RECONNECT_US

    async def push_reply(self, reply: PushedReply) -> None:  # noqa: ARG002 - the broker's interface
        """Raise ClientFailedError, because the gRPC protocol has no replies."""
        raise self._unable("take replies")

    async def running_info(self, group: str, client_id: str, *, with_stacks: bool) -> ClientAnswer:
        """Return the client's settings and, like RocketMQ, its thread stacks, requested from the client."""
        member = self._broker.registry.clients.consumer(group, client_id)
        if member is None:
            raise ClientOfflineError(f"The Consumer <{group}> <{client_id}> not online")
        stacks = await self.questions.stacks() if with_stacks else None
        return running_info(member.consumers[group], self.release, self._began_us // US_PER_MS, stacks)

    async def consume(self, group: str, client_id: str, message: StoredMessage, queue: Queue) -> ClientAnswer:  # noqa: ARG002
        """Make the client consume the message now, with a VerifyMessageCommand."""
        return await self.questions.verify(message_out(self._broker, message, queue.topic))

    async def consumed_offsets(self, group: str, topic: str) -> ClientAnswer:  # noqa: ARG002
        """Raise ClientFailedError, because gRPC clients keep no offsets."""
        raise self._unable("report its offsets")

    def _unable(self, what: str) -> ClientFailedError:
        return ClientFailedError(f"{self.client_id} is a gRPC client, which cannot {what}")


class GrpcClients:
    """All gRPC clients, which are also in the broker's registry."""

    def __init__(self, registry: Clients) -> None:
        self._registry = registry
        self._streams: dict[str, list[GrpcClient]] = {}  # by client id, newest last
        self._beats: dict[str, int] = {}

    def produces(self, client: GrpcClient, topics: Sequence[str]) -> None:
        """Register a producer. As in RocketMQ's proxy, the names of its topics are its producer groups."""
        client.topics = list(topics)
        self._register(client, producers=client.topics)

    def consumes(
        self, client: GrpcClient, kind: int, group: str, subscriptions: Sequence[Subscription]
    ) -> None:
        """Register a consumer; ``kind`` is its ClientType."""
        client.is_lite = kind in (LITE_PUSH_CONSUMER, LITE_SIMPLE_CONSUMER)
        is_active = kind in (SIMPLE_CONSUMER, LITE_SIMPLE_CONSUMER)
        consume_type = "CONSUME_ACTIVELY" if is_active else "CONSUME_PASSIVELY"
        model = LITE_SELECTIVE if client.is_lite else CLUSTERING
        data = ConsumerData(group, consume_type, model, "CONSUME_FROM_FIRST_OFFSET", subscriptions)
        self._register(client, consumers=[data])

    def _register(
        self, client: GrpcClient, *, producers: Sequence[str] = (), consumers: Sequence[ConsumerData] = ()
    ) -> None:
        streams = self._streams.setdefault(client.client_id, [])
        if client not in streams:
            streams.append(client)
        self._registry.heartbeat(
            client,
            Heartbeat(
                client.client_id,
                client.language,
                V5_0_0,
                producers=producers,
                consumers=consumers,
                release=client.release,
                properties=client.properties,
            ),
        )

    def sends_to(self, client_id: str, topic: str) -> None:
        """Record a topic that a producer uses although its settings did not declare it."""
        streams = self._streams.get(client_id)
        if streams and topic not in streams[-1].topics:
            self.produces(streams[-1], [*streams[-1].topics, topic])

    def request_timeout_us(self, client_id: str) -> int:
        """The request timeout in a connected client's settings."""
        streams = self._streams.get(client_id)
        return streams[-1].request_timeout_us if streams else REQUEST_TIMEOUT_US

    def is_lite(self, client_id: str) -> bool | None:
        """Whether a connected client's settings name it a consumer of lite topics; None without settings."""
        streams = self._streams.get(client_id)
        return streams[-1].is_lite if streams else None

    def notify_unsubscribed(self, client_id: str, lite_topic: str) -> None:
        """Tell a client, if it is connected, that it has lost a lite topic to another client."""
        streams = self._streams.get(client_id)
        if streams:
            streams[-1].notify_unsubscribed(lite_topic)

    def owner(self, client_id: str) -> str | None:
        """Return the access key that registered a connected client, if clients need one."""
        streams = self._streams.get(client_id)
        account = streams[0].account if streams else None
        return None if account is None else account.access_key

    def beats(self, client_id: str) -> None:
        now_us = steady_us()
        self._beats.pop(client_id, None)
        self._beats[client_id] = now_us  # oldest first
        for known, seen_us in list(self._beats.items()):
            if now_us - seen_us < BEAT_US:
                break
            del self._beats[known]

    def is_alive(self, client_id: str) -> bool:
        """Whether the client has a stream or sent a recent heartbeat."""
        return client_id in self._streams or steady_us() - self._beats.get(client_id, -BEAT_US) < BEAT_US

    def leave(self, client_id: str) -> None:
        """Remove a client that announces its end from the registry, before its streams end."""
        for client in self._streams.get(client_id, ()):
            client.told_us = None
            self._registry.gone(client)

    def gone(self, client: GrpcClient) -> bool:
        """Remove an ended stream. Returns whether the client has left and is not reconnecting."""
        client.questions.end()
        self._registry.gone(client)
        streams = self._streams.get(client.client_id, [])
        if client in streams:  # its client has sent settings
            streams.remove(client)
        if streams:
            return False
        self._streams.pop(client.client_id, None)
        if client.is_reconnecting:
            return False
        self._beats.pop(client.client_id, None)
        return True
