"""What unmodified clients asked is recorded, and the same version answers its replay alike."""

from pathlib import Path

import pytest
from grpclib.const import Cardinality

from mocketmq.grpc_proxy.definitions import SERVICE
from mocketmq.grpc_proxy.messages import message_class
from mocketmq.remoting.wire.frame import FrameReader
from tests.doors.grpc import recorded as grpc_recorded
from tests.process.test_request_recordings import compared, recording_broker
from tests.support.grpc import GrpcClient, grpc_client
from tests.support.patience import PATIENCE_S
from tests.support.remoting import RemotingClient
from tests.unit.remoting import recorded as remoting_recorded

SHORT_POLLS = ("--max-long-poll", "100ms")
ONE_QUEUE = ("--topic-queues", "1")
"""Brokers choose the queue of a message by gRPC at random."""


async def play(remoting: RemotingClient, client: str) -> int:
    """Send the requests of a client, one after the other. Returns their number."""
    count = 0
    for frame in remoting_recorded.frames(client):
        for command in FrameReader().feed(frame):
            if command.is_response:
                continue
            count += 1
            if command.is_oneway:
                remoting.oneway(command.code, command.ext, command.body)
            else:
                await remoting.call(
                    *(command.code, command.ext, command.body),
                    language=command.language,
                    version=command.version,
                    serialization=command.serialization,
                )
    return count


@pytest.mark.parametrize("client", remoting_recorded.FILES)
async def test_requests_of_clients_are_answered_alike(client: str, tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with recording_broker(path, *SHORT_POLLS) as (_, _, remoting):
        count = await play(remoting, client)
    code, summary, stderr = await compared(path, *SHORT_POLLS)
    assert summary["differences"] == []
    assert (code, stderr) == (0, "")
    assert summary["doors"]["remoting"]["compared"] == count


async def test_another_setting_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with recording_broker(path, *SHORT_POLLS) as (_, _, remoting):
        await play(remoting, "java-5.5")
    code, summary, _ = await compared(path, *SHORT_POLLS, "--no-auto-create-topics")
    assert code == 1
    assert {each["operation"].partition(" ")[0] for each in summary["differences"]} >= {"SEND_MESSAGE_V2"}


async def ask(grpc: GrpcClient, one: grpc_recorded.Recorded) -> None:
    """Send a recorded request, with its headers but those that sign it, and read its answer."""
    message = message_class(one.kind).FromString(one.data)
    kind = Cardinality.UNARY_STREAM if one.rpc == "ReceiveMessage" else Cardinality.UNARY_UNARY
    if one.rpc == "Telemetry":
        kind = Cardinality.STREAM_STREAM
    reply = message_class(one.kind if one.rpc == "Telemetry" else f"{one.rpc}Response")
    headers = {name: value for name, value in one.headers.items() if value and name != "authorization"}
    async with grpc.channel.request(
        f"/{SERVICE}/{one.rpc}", kind, type(message), reply, timeout=PATIENCE_S, metadata=headers
    ) as call:
        await call.send_message(message, end=True)
        while await call.recv_message() is not None:
            pass


@pytest.mark.parametrize("client", grpc_recorded.FILES)
async def test_requests_of_grpc_clients_are_answered_alike(client: str, tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with (
        recording_broker(path, *SHORT_POLLS, *ONE_QUEUE) as (broker, _, _),
        grpc_client(int(broker.grpc.rpartition(":")[2])) as grpc,
    ):
        for one in grpc_recorded.requests(client):
            await ask(grpc, one)
    code, summary, stderr = await compared(path, *SHORT_POLLS, *ONE_QUEUE)
    assert summary["differences"] == []
    assert (code, stderr) == (0, "")
    assert summary["doors"]["grpc"]["compared"] >= 10
