"""GOAWAY from client and server: requests in progress finish, and no further request begins."""

import asyncio

import pytest
from h2.events import StreamReset

from mocketmq.grpc_proxy.frames import END_STREAM, Frame, Http2Code, frame, goaway_frame
from mocketmq.grpc_proxy.messages import message_class
from tests.hostile.http2 import RawHttp2, framed, raw_http2
from tests.support.grpc import running_grpc
from tests.support.patience import PATIENCE_S
from tests.support.process import forked_broker

OK, MESSAGE_NOT_FOUND = 20_000, 40_401


def receive_request(wait_s: int) -> bytes:
    request = message_class("ReceiveMessageRequest")(group={"name": "billing"}, batch_size=1)
    request.message_queue.topic.name = "orders"
    request.invisible_duration.seconds = 30
    request.long_polling_timeout.seconds = wait_s
    return framed(request)


def send_request(body: str) -> bytes:
    message = {
        "topic": {"name": "orders"},
        "body": body.encode(),
        "system_properties": {"message_id": f"01{body:0>32}", "body_encoding": 1},
    }
    return framed(message_class("SendMessageRequest")(messages=[message]))


async def leave(client: RawHttp2) -> None:
    """Announce that no further streams will begin, and continue to read."""
    await client.flush()
    client.writer.write(goaway_frame(0, Http2Code.NO_ERROR))
    await client.writer.drain()


async def ended(client: RawHttp2) -> None:
    while await client.read():
        pass


async def test_sends_in_progress_are_answered_after_the_clients_goaway() -> None:
    async with running_grpc() as (_, reader), raw_http2(f"127.0.0.1:{reader.port}") as client:
        streams = [client.open("SendMessage") for _ in range(40)]
        for number, stream in enumerate(streams):
            client.h2.send_data(stream, send_request(str(number)), end_stream=True)
        await leave(client)
        await ended(client)
        for stream in streams:
            assert (await client.trailers(stream))["grpc-status"] == "0"
            answer = message_class("SendMessageResponse").FromString(client.message(stream))
            assert answer.status.code == OK
        received = [one for _ in range(2) for one in await reader.receive(batch_size=32)]
        assert len(received) == len(streams)


async def test_goaway_ends_waiting_receives_and_telemetry() -> None:
    async with running_grpc() as (_, other), raw_http2(f"127.0.0.1:{other.port}") as client:
        telemetry = client.open("Telemetry")
        await client.send(telemetry, b"")
        receive = client.open("ReceiveMessage")
        await client.send(receive, receive_request(wait_s=20), end=True)
        await other.call("Heartbeat")  # by its answer, the receive waits
        await leave(client)
        async with asyncio.timeout(PATIENCE_S):
            await ended(client)
        assert (await client.trailers(receive))["grpc-status"] == "0"
        status = message_class("ReceiveMessageResponse").FromString(client.message(receive)).status
        assert status.code == MESSAGE_NOT_FOUND
        assert (await client.trailers(telemetry))["grpc-status"] == "0"


async def test_goaway_ends_a_receive_that_has_not_begun() -> None:
    async with running_grpc() as (_, other), raw_http2(f"127.0.0.1:{other.port}") as client:
        receive = client.open("ReceiveMessage")
        client.h2.send_data(receive, receive_request(wait_s=20), end_stream=True)
        client.writer.write(client.h2.data_to_send() + goaway_frame(0, Http2Code.NO_ERROR))
        async with asyncio.timeout(PATIENCE_S):
            await ended(client)
        assert (await client.trailers(receive))["grpc-status"] == "0"


async def test_telemetry_ended_after_goaway_is_not_reset() -> None:
    async with running_grpc() as (_, other), raw_http2(f"127.0.0.1:{other.port}") as client:
        telemetry = client.open("Telemetry")
        await client.send(telemetry, b"")
        await client.flush()
        half_close = frame(Frame.DATA, END_STREAM, telemetry, b"")
        client.writer.write(goaway_frame(0, Http2Code.NO_ERROR) + half_close)  # as grpc-js does at its end
        async with asyncio.timeout(PATIENCE_S):
            await ended(client)
        assert (await client.trailers(telemetry))["grpc-status"] == "0"
        assert not any(isinstance(event, StreamReset) for event in client.events)


async def test_a_stopping_broker_finishes_requests_in_progress() -> None:
    async with forked_broker() as broker, raw_http2(broker.grpc) as client:
        telemetry = client.open("Telemetry")
        await client.send(telemetry, b"")
        receive = client.open("ReceiveMessage")
        await client.send(receive, receive_request(wait_s=20), end=True)
        heartbeat = client.open("Heartbeat")
        await client.send(heartbeat, framed(message_class("HeartbeatRequest")()), end=True)
        await client.trailers(heartbeat)
        broker.terminate()
        async with asyncio.timeout(PATIENCE_S):
            await ended(client)
        assert client.goaway == Http2Code.NO_ERROR
        assert (await client.trailers(receive))["grpc-status"] == "0"
        assert (await client.trailers(telemetry))["grpc-status"] == "0"
        assert await broker.wait() == 0


@pytest.mark.parametrize("kind", [Frame.PING, Frame.SETTINGS])
async def test_a_connection_continues_after_a_few_control_frames(kind: Frame) -> None:
    async with running_grpc() as (_, other), raw_http2(f"127.0.0.1:{other.port}") as client:
        for _ in range(50):
            client.writer.write(frame(kind, 0, 0, bytes(8) if kind == Frame.PING else b""))
        stream = client.open("Heartbeat")
        await client.send(stream, framed(message_class("HeartbeatRequest")()), end=True)
        assert (await client.trailers(stream))["grpc-status"] == "0"
