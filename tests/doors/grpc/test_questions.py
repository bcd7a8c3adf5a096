"""Tools list connected clients, and ask them to consume a message or to show their threads."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession
from grpclib.config import Configuration
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.grpc_proxy import questions
from mocketmq.grpc_proxy import telemetry as telemetry_rpc
from mocketmq.grpc_proxy.memory import MemoryLimits
from mocketmq.grpc_proxy.messages import message_class
from tests.support.api import Api
from tests.support.grpc import GrpcClient, Telemetry, grpc_client, running_grpc
from tests.support.patience import PATIENCE_S
from tests.support.remoting import connected

CONNECTIONS, RUNNING_INFO = 203, 307


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the broker wait longer for clients, which a busy machine delays."""
    monkeypatch.setattr(questions, "ANSWER_S", PATIENCE_S)


async def answer(telemetry: Telemetry, kind: str, code: int, **fields: Any) -> Any:
    """Answer the next question, and return the question."""
    asked = await telemetry.command()
    question = getattr(asked, asked.WhichOneof("command"))
    command = message_class("TelemetryCommand")(status={"code": code, "message": "so it said"})
    getattr(command, kind).nonce = question.nonce
    for name, text in fields.items():
        setattr(getattr(command, kind), name, text)
    await telemetry.say(command)
    return question


@asynccontextmanager
async def a_request_to_consume(
    body: str = "hello", **fields: Any
) -> AsyncIterator[tuple[Api, GrpcClient, tuple[str, str, dict[str, str]]]]:
    """Store a message; yield the arguments of the request that asks the client to consume it."""
    async with running_grpc() as (emulator, client), ClientSession() as session:
        api = Api(emulator, session)
        sent = await api.send(body=body, **fields)
        path = f"/v1/clients/{client.metadata['x-mq-client-id']}/consume"
        yield api, client, ("POST", path, {"group": "billing", "message_id": sent["message_id"]})


async def test_clients_are_listed_with_the_version_of_their_sdk() -> None:
    async with running_grpc() as (emulator, client), ClientSession() as session:
        api = Api(emulator, session)
        client.metadata["x-mq-client-version"] = "5.1.2"
        async with client.telemetry() as telemetry, client.telemetry() as second:
            entry = {"topic": {"name": "orders"}, "expression": {"type": 2, "expression": "a > 1"}}
            await telemetry.settings(
                client_type=3, subscription={"group": {"name": "billing"}, "subscriptions": [entry]}
            )
            await second.produce("orders")
            consumer, producer = sorted(
                (await api.ok("GET", "/v1/clients"))["clients"], key=lambda one: len(one["producer_groups"])
            )
            assert (consumer["client_id"], consumer["door"], consumer["language"], consumer["version"]) == (
                "host@1@0@abc",
                "grpc",
                "PYTHON",
                "5.1.2",
            )
            [group] = consumer["consumer_groups"]
            assert (group["group"], group["consume_type"]) == ("billing", "CONSUME_ACTIVELY")
            assert group["subscriptions"] == [
                {"topic": "orders", "expression": "a > 1", "expression_type": "SQL92"}
            ]
            assert producer["producer_groups"] == ["orders"]
        async with asyncio.timeout(PATIENCE_S):
            while (await api.ok("GET", "/v1/clients"))["clients"]:
                pass


async def test_mqadmin_gets_the_newest_filter_of_a_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = itertools.count(wall_us() // US_PER_MS)
    monkeypatch.setattr(telemetry_rpc, "wall_us", lambda: next(now_ms) * US_PER_MS)
    async with running_grpc() as (emulator, client), client.telemetry() as telemetry:
        assert emulator.remoting
        async with connected("127.0.0.1", emulator.remoting.broker_port) as remoting:
            for tag in ("a", "b"):
                entry = {"topic": {"name": "orders"}, "expression": {"type": 1, "expression": tag}}
                subscription = {"group": {"name": "billing"}, "subscriptions": [entry]}
                await telemetry.settings(client_type=2, subscription=subscription)
                connections = await remoting.ok(CONNECTIONS, {"consumerGroup": "billing"})
                assert json.loads(connections.body)["subscriptionTable"]["orders"]["subString"] == tag


async def test_consumer_consumes_a_message_on_request() -> None:
    async with (
        a_request_to_consume(body="again", tag="A") as (api, client, request),
        client.telemetry() as telemetry,
    ):
        await telemetry.consume()
        for code, result in ((20_000, "CR_SUCCESS"), (60_000, "CR_LATER"), (40_016, "CR_RETURN_NULL")):
            asking = asyncio.create_task(api.ok(*request))
            question = await answer(telemetry, "verify_message_result", code)
            assert (question.message.body, question.message.system_properties.tag) == (b"again", "A")
            assert (await asking)["result"] == result
        asking = asyncio.create_task(api.refused(502, *request))
        await answer(telemetry, "verify_message_result", 50_100)
        assert "50100" in (await asking)["detail"]


async def test_mqadmin_gets_thread_stacks_of_a_consumer() -> None:
    async with running_grpc() as (emulator, client), client.telemetry() as telemetry:
        await telemetry.consume()
        assert emulator.remoting
        async with connected("127.0.0.1", emulator.remoting.broker_port) as remoting:
            ext = {"consumerGroup": "billing", "clientId": client.metadata["x-mq-client-id"]}
            asking = asyncio.create_task(remoting.call(RUNNING_INFO, ext | {"jstackEnable": "true"}))
            await answer(telemetry, "thread_stack_trace", 20_000, thread_stack_trace="main at work")
            info = json.loads((await asking).body)
            assert info["jstack"] == "main at work"
            [subscription] = info["subscriptionSet"]
            assert (subscription["topic"], subscription["subString"]) == ("orders", "*")
            assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
            plain = json.loads((await remoting.call(RUNNING_INFO, ext)).body)  # without asking the client
            assert "jstack" not in plain


async def test_broker_limits_its_wait_for_client_answers(monkeypatch: Any) -> None:
    monkeypatch.setattr(questions, "ANSWER_S", 0.01)
    async with a_request_to_consume() as (api, client, request), client.telemetry() as telemetry:
        await telemetry.consume()
        assert "did not answer" in (await api.refused(504, *request))["detail"]


async def test_a_request_to_a_client_that_disconnects_fails() -> None:
    async with a_request_to_consume() as (api, client, request):
        async with client.telemetry() as telemetry:
            await telemetry.consume()
            asking = asyncio.create_task(api.refused(502, *request))
            await telemetry.command()
        assert "ended" in (await asking)["detail"]


async def test_a_request_to_a_client_fails_while_memory_is_lacking() -> None:
    async with a_request_to_consume() as (api, client, request), client.telemetry() as telemetry:
        await telemetry.consume()
        assert api.emulator.grpc
        api.emulator.grpc.memory.limits = MemoryLimits(unread=0)
        assert "too much memory" in (await api.refused(502, *request))["detail"]
        api.emulator.grpc.memory.limits = MemoryLimits()
        await telemetry.consume()


async def test_properties_of_a_client_are_listed() -> None:
    async with running_grpc() as (emulator, client), ClientSession() as session:
        api = Api(emulator, session)
        async with client.telemetry() as telemetry:
            producer = {"client_type": 1, "publishing": {"topics": [{"name": "orders"}]}}
            for properties in {"app.team": "shop", "build": "7 ☃"}, {"build": "8"}, {}:
                await telemetry.settings(**producer, client_properties=properties)
                [listed] = (await api.ok("GET", "/v1/clients"))["clients"]
                assert listed["properties"] == properties


@pytest.mark.parametrize(
    "properties",
    [
        {f"p{number}": "" for number in range(33)},
        {"2nd": ""},
        {"a b": ""},
        {"n" * 65: ""},
        {"name": "v" * 257},
        {f"p{number}": "☃" * 200 for number in range(7)},
    ],
)
async def test_client_properties_beyond_the_limits_end_the_stream(properties: dict[str, str]) -> None:
    async with running_grpc() as (_, client):
        with pytest.raises(GRPCError, match=r"client_properties is .*; allowed: 32 properties") as refused:
            async with client.telemetry() as telemetry:
                await telemetry.settings(
                    client_type=1, publishing={"topics": []}, client_properties=properties
                )
        assert refused.value.status is Status.INVALID_ARGUMENT


async def test_a_client_that_sends_nothing_more_gets_all_commands_whole() -> None:
    narrow = Configuration(http2_connection_window_size=1 << 16, http2_stream_window_size=1 << 16)
    async with (
        running_grpc() as (_, client),
        grpc_client(client.port, config=narrow) as slow,
        slow.telemetry() as telemetry,
    ):
        for name in ("one", "two"):
            settings = {"user_agent": {"hostname": name * (1 << 16)}, "publishing": {}}
            await telemetry.say(message_class("TelemetryCommand")(settings=settings))
        await telemetry.half_close()
        await client.call("Heartbeat")  # by its answer, the broker has read all of it
        for name in ("one", "two"):
            assert (await telemetry.command()).settings.user_agent.hostname == name * (1 << 16)
