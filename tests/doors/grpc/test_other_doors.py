"""Messages sent by gRPC have the same id and history in other protocols, and vice versa."""

import gzip
from pathlib import Path

import pytest
from aiohttp import ClientSession

from mocketmq.clock import US_PER_S, wall_us
from tests.doors.remoting.gates import until
from tests.doors.remoting.popping import pop
from tests.doors.remoting.producing import UNIQUE, header
from tests.support.aliyun import Aliyun
from tests.support.api import Api
from tests.support.brokers import rows
from tests.support.grpc import DELAY, NORMAL, running_grpc
from tests.support.remoting import connected

DOORS = ("grpc", "http", "remoting", "aliyun")
MINUTE_MS = 60_000
LEVEL_OF_A_MINUTE = "5"


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


async def test_history_and_metrics_include_grpc_clients() -> None:
    async with running_grpc() as (emulator, client), ClientSession() as session:
        api = Api(emulator, session)
        message = client.message("hello", delay_s=30)
        await client.send(message)
        assert await client.receive() == []
        await emulator.broker.mover.advance(31 * US_PER_S)
        [got] = await client.receive(invisible_s=10)
        await emulator.broker.mover.advance(10 * US_PER_S)
        [got] = await client.receive()
        await client.ack(got)
        history = await api.ok("GET", f"/v1/messages/{message.system_properties.message_id}")
        [delivery], [take] = history["deliveries"], history["receipts"]
        assert (delivery["pulled_by"], delivery["acked_us"]) == ("billing", take["settled_us"])
        assert (take["group"], take["times"], take["outcome"]) == ("billing", 2, "acked")
        text = (await api.call("GET", "/metrics")).body.decode()
        for line in (
            'mocketmq_grpc_requests_total{code="20000",rpc="SendMessage"} 1.0',
            'mocketmq_grpc_requests_total{code="20000",rpc="ReceiveMessage"} 2.0',
            'mocketmq_grpc_requests_total{code="40401",rpc="ReceiveMessage"} 1.0',
            "mocketmq_grpc_connections 1.0",
            "mocketmq_grpc_held_bytes 0.0",
            "mocketmq_grpc_unread_bytes 0.0",
        ):
            assert line in text.splitlines()


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


async def test_gzip_body_is_readable_at_every_door() -> None:
    async with running_grpc() as (emulator, client), ClientSession() as session:
        message = client.message("")
        message.body, message.system_properties.body_encoding = gzip.compress(b"x" * 5_000), 2
        await client.send(message)
        [taken] = await Api(emulator, session).receive()
        assert taken["body"] == "x" * 5_000
        [got] = await client.receive("other")
        assert (got.body, got.system_properties.body_encoding) == (b"x" * 5_000, 1)


@pytest.mark.parametrize("door", DOORS)
async def test_all_doors_show_the_same_delayed_message(door: str, tmp_path: Path) -> None:
    async with running_grpc(data=str(tmp_path)) as (emulator, client), ClientSession() as session:
        api, aliyun = Api(emulator, session), Aliyun(emulator, session)
        assert emulator.remoting
        async with connected("127.0.0.1", emulator.remoting.broker_port) as remoting:
            if door == "grpc":
                message = client.message("hello", delay_s=60)
                await client.send(message)
                message_id = message.system_properties.message_id
            elif door == "http":
                message_id = (await api.send(delay_ms=MINUTE_MS))["message_id"]
            elif door == "remoting":
                message_id = UNIQUE
                await remoting.ok(
                    310, header(properties={"UNIQ_KEY": UNIQUE, "DELAY": LEVEL_OF_A_MINUTE}), b"hello"
                )
            else:
                due_ms = wall_us() // 1_000 + MINUTE_MS
                message_id = (await aliyun.published(__STARTDELIVERTIME=due_ms))["MessageId"]
            [parked] = (await api.ok("GET", "/v1/events"))["events"]
            assert (parked["door"], f"sent to orders by {door}, parked" in parked["text"]) == (door, True)
            await emulator.broker.mover.advance(61 * US_PER_S)
            by_grpc = [one.system_properties.message_id for one in await client.receive("g-grpc")]
            by_json = [one["message_id"] for one in await api.receive(group="g-json")]
            popped = await pop(remoting, consumerGroup="g-remoting")
            by_remoting = [one.properties["UNIQ_KEY"] for one in popped]
            by_aliyun = [one["MessageId"] for one in await aliyun.consume(group="GID_aliyun")]
        assert by_grpc == by_json == by_remoting == by_aliyun == [message_id]
        history = await api.ok("GET", f"/v1/messages/{message_id}")
        assert (history["state"], len(history["deliveries"])) == ("delivered", 1)
        assert {record["door"] for record in history["records"]} == {door}
        [row] = rows(tmp_path, "SELECT unique_key FROM deliveries")
        assert row["unique_key"] == message_id


async def test_a_connected_producer_sends_after_a_reset_that_forgets() -> None:
    async with running_grpc(auto_create_topics=False) as (emulator, client), ClientSession() as session:
        api = Api(emulator, session)
        for topic in ("orders", "others"):
            await api.ok("PUT", f"/v1/topics/{topic}", {"type": "normal"})
        async with client.telemetry() as telemetry:
            await telemetry.produce("orders")
            await api.ok("POST", "/v1/reset", {"forget": True})
            assert (await client.send(client.message("hello"))).status.code == 20_000
            assert (await api.ok("GET", "/v1/topics/orders"))["type"] == "normal"
            await api.refused(404, "GET", "/v1/topics/others")
        await until(lambda: not list(emulator.broker.registry.clients))
        await api.ok("POST", "/v1/reset", {"forget": True})
        await api.refused(404, "GET", "/v1/topics/orders")
