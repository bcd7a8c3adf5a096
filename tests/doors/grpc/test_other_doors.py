"""What comes in by gRPC goes out by other doors with the same id and history, and the other way round."""

import gzip

from aiohttp import ClientSession

from mocketmq.clock import US_PER_S
from tests.doors.remoting.popping import pop
from tests.support.api import Api
from tests.support.grpc import DELAY, NORMAL, running_grpc
from tests.support.remoting import connected


async def test_sent_by_grpc_received_by_json_and_by_remoting() -> None:
    async with running_grpc() as (emulator, client), ClientSession() as session:
        api = Api(emulator, session)
        message = client.message("hello", tag="A", keys=["k"], properties={"colour": "red"}, delay_s=60)
        message_id = message.system_properties.message_id
        await client.send(message)
        assert (await api.ok("GET", f"/v1/messages/{message_id}"))["state"] == "pending"
        await emulator.broker.mover.advance(61 * US_PER_S)
        [taken] = await api.receive()
        assert (taken["message_id"], taken["body"], taken["tag"], taken["keys"]) == (
            message_id,
            "hello",
            "A",
            ["k"],
        )
        assert taken["properties"]["colour"] == "red"
        history = await api.ok("GET", f"/v1/messages/{message_id}")
        assert history["state"] == "delivered"
        assert len(history["deliveries"]) == 1
        assert emulator.remoting
        async with connected("127.0.0.1", emulator.remoting.broker_port) as remoting:
            [popped] = await pop(remoting, consumerGroup="other")
        assert (popped.body, popped.properties["UNIQ_KEY"]) == ("hello", message_id)


async def test_sent_by_json_received_by_grpc() -> None:
    async with running_grpc() as (emulator, client), ClientSession() as session:
        api = Api(emulator, session)
        plain = await api.send(body="plain", tag="A", keys=["k1", "k2"], properties={"colour": "red"})
        [got] = await client.receive()
        system = got.system_properties
        assert (system.message_id, system.tag, list(system.keys)) == (plain["message_id"], "A", ["k1", "k2"])
        assert (got.body, dict(got.user_properties), system.message_type) == (
            b"plain",
            {"colour": "red"},
            NORMAL,
        )
        await client.ack(got)
        await api.send(body="level", delay_level=1)
        await emulator.broker.mover.advance(1 * US_PER_S)
        [got] = await client.receive()
        assert (got.body, got.system_properties.message_type) == (b"level", DELAY)


async def test_a_body_packed_by_gzip_is_plain_to_all() -> None:
    async with running_grpc() as (emulator, client), ClientSession() as session:
        message = client.message("")
        message.body, message.system_properties.body_encoding = gzip.compress(b"x" * 5_000), 2
        await client.send(message)
        [taken] = await Api(emulator, session).receive()
        assert taken["body"] == "x" * 5_000
        [got] = await client.receive("other")
        assert (got.body, got.system_properties.body_encoding) == (b"x" * 5_000, 1)
