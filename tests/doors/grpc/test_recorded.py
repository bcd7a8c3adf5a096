"""Requests recorded from unmodified gRPC clients are read and answered again (recorded/README.md)."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest
from grpclib.const import Cardinality
from msgspec.structs import replace

from mocketmq.broker.registry.groups import LITE_BIND_TOPIC, USUAL
from mocketmq.broker.registry.topic import PERM_READ, PERM_WRITE
from mocketmq.broker.registry.topic_config import PLAIN
from mocketmq.grpc_proxy.definitions import SERVICE
from mocketmq.grpc_proxy.messages import message_class
from tests.clients.features import GRPC_CLIENTS
from tests.clients.grpc.programs import PRIORITIES
from tests.doors.grpc.recorded import (
    FILES,
    LITE_FILES,
    PRIORITY_FILES,
    Recorded,
    lite_requests,
    priority_requests,
    requests,
)
from tests.support.grpc import GrpcClient, running_grpc
from tests.support.patience import PATIENCE_S

BASICS = {
    "QueryRoute",
    "Heartbeat",
    "SendMessage",
    "ReceiveMessage",
    "AckMessage",
    "EndTransaction",
    "Telemetry",
    "NotifyClientTermination",
}
"""RPCs of every client that produces, consumes and ends transactions."""
OK, UNAUTHORIZED, INTERNAL_ERROR = 20_000, 40_100, 50_000
"""Codes for success and a wrong key, and the lowest code of a server failure."""
UNKNOWN_NOW = {("AckMessage", 40_013), ("ChangeInvisibleDuration", 40_013), ("ReceiveMessage", 40_401)}
"""RPCs about messages that were received during the recording."""
GONE = {"EndTransaction", "RecallMessage"}
"""RPCs that name objects which no longer exist; the proxy has no better code for this."""


def message_of(one: Recorded) -> Any:
    return message_class(one.kind).FromString(one.data)


def test_every_client_was_recorded() -> None:
    assert set(FILES) == set(GRPC_CLIENTS)
    for client in FILES:
        assert {one.rpc for one in requests(client)} >= BASICS, client
    assert set(PRIORITY_FILES) == set(PRIORITIES)


@pytest.mark.parametrize("client", FILES)
def test_recorded_messages_survive_a_round_trip(client: str) -> None:
    for one in requests(client):
        message = message_of(one)
        assert type(message).FromString(message.SerializeToString()) == message
        assert message.ListFields() or one.rpc in ("Heartbeat", "NotifyClientTermination")


@pytest.mark.parametrize("client", FILES)
async def test_recorded_requests_are_answered(client: str) -> None:
    """Signatures do not depend on a clock. Messages received during the recording are unknown now."""
    async with running_grpc(access_keys={"shop": "secret"}) as (_, grpc):
        refused = 0
        for one in requests(client):
            if one.rpc != "Telemetry":
                code = await answered(grpc, one)
                assert code < INTERNAL_ERROR or one.rpc in GONE, (one, code)
                refused += code == UNAUTHORIZED
        assert refused <= 1, "the key is wrong in one request alone, on purpose"


@pytest.mark.parametrize("client", LITE_FILES)
async def test_recorded_requests_about_lite_topics_are_served(client: str) -> None:
    recorded = [(one, message_of(one)) for one in lite_requests(client)]
    [sync, *_] = [message for one, message in recorded if one.rpc == "SyncLiteSubscription"]
    topic, group = sync.topic.name, sync.group.name
    async with running_grpc() as (emulator, grpc), AsyncExitStack() as streams:
        registry = emulator.broker.registry
        lite = replace(PLAIN, attributes={"message.type": "LITE"})
        await registry.topics.put(topic, 1, 1, PERM_READ | PERM_WRITE, lite)
        await registry.groups.put(group, 16, 1, replace(USUAL, attributes={LITE_BIND_TOPIC: topic}))
        for one, message in recorded:
            assert type(message).FromString(message.SerializeToString()) == message
            if one.rpc == "Telemetry":
                await accepted(grpc, one, streams)
                continue
            code = await answered(grpc, one)
            assert code == OK or (one.rpc, code) in UNKNOWN_NOW, (one, code)
        assert [queue.lite_topic for queue in registry.topics.lites.of(topic)] == ["a"]


@pytest.mark.parametrize("client", PRIORITY_FILES)
async def test_recorded_priorities_are_received_highest_first(client: str) -> None:
    recorded = [(one, message_of(one)) for one in priority_requests(client)]
    sent = [message.messages[0] for one, message in recorded if one.rpc == "SendMessage"]
    [receive, *_] = [message for one, message in recorded if one.rpc == "ReceiveMessage"]
    topic, group = receive.message_queue.topic.name, receive.group.name
    priority = replace(PLAIN, attributes={"message.type": "PRIORITY"})
    async with running_grpc() as (emulator, grpc), AsyncExitStack() as streams:
        await emulator.broker.registry.topics.put(topic, 10, 10, PERM_READ | PERM_WRITE, priority)
        await emulator.broker.registry.groups.put(group, 16, 1, USUAL)
        received: list[int] = []
        for one, message in recorded:
            assert type(message).FromString(message.SerializeToString()) == message
            if one.rpc == "Telemetry":
                await accepted(grpc, one, streams)
                continue
            first, *others = await answers(grpc, one)
            code = int(first.status.code)
            assert code == OK or (one.rpc, code) in UNKNOWN_NOW, (one, code)
            found = [answer.message for answer in others if answer.HasField("message")]
            received += [each.system_properties.priority for each in found]
        assert received[: receive.batch_size] == [9, 8, 7, 6]
        assert received == sorted(received, reverse=True)
        assert {each.system_properties.priority for each in sent} >= {*received, *range(1, 10)}


async def accepted(client: GrpcClient, one: Recorded, streams: AsyncExitStack) -> None:
    """Send recorded settings, which must be accepted, on a stream that stays open."""
    message = message_of(one)
    stream = client.channel.request(
        f"/{SERVICE}/Telemetry",
        Cardinality.STREAM_STREAM,
        type(message),
        type(message),
        metadata=filled(one.headers),
    )
    call = await streams.enter_async_context(stream)
    await call.send_message(message)
    answer = await call.recv_message()
    assert answer is not None
    assert answer.status.code == OK
    streams.push_async_callback(call.cancel)


async def answered(client: GrpcClient, one: Recorded) -> int:
    """Send a request as :func:`answers` does, and return the code of the answer."""
    first, *_ = await answers(client, one)
    return int(first.status.code)


async def answers(client: GrpcClient, one: Recorded) -> list[Any]:
    """Send a request with the recorded headers and no long poll, and return its answers."""
    message = message_of(one)
    if one.rpc == "ReceiveMessage":
        message.long_polling_timeout.Clear()
        message.long_polling_timeout.SetInParent()  # unset, the receive would wait
    kind = Cardinality.UNARY_STREAM if one.rpc == "ReceiveMessage" else Cardinality.UNARY_UNARY
    reply = message_class(f"{one.rpc}Response")
    path = f"/{SERVICE}/{one.rpc}"
    async with client.channel.request(
        path, kind, type(message), reply, timeout=PATIENCE_S, metadata=filled(one.headers)
    ) as call:
        await call.send_message(message, end=True)
        return [answer async for answer in call]


def filled(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers without empty ones, which grpclib does not send."""
    return {name: value for name, value in headers.items() if value}
