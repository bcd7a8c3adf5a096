"""Topics that accept one message type, and groups that consume in order."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import ClientSession

from mocketmq.cli import commands
from mocketmq.errors import SettingError
from mocketmq.settings import GroupDeclaration, TopicDeclaration
from mocketmq.settings_sources import load_settings
from tests.support.api import Api
from tests.support.command_line import runner
from tests.support.grpc import TRANSACTION, GrpcClient, running_grpc
from tests.support.remoting import connected

TYPES = {"normal": 1, "fifo": 2, "delay": 3, "transaction": 4, "priority": 6}


def messages_of_each_type(client: GrpcClient, topic: str) -> dict[str, object]:
    return {
        "normal": client.message("m", topic),
        "fifo": client.message("m", topic, message_group="g"),
        "delay": client.message("m", topic, delay_s=1),
        "transaction": client.message("m", topic, message_type=TRANSACTION),
        "priority": client.message("m", topic, priority=0),
    }


@pytest.mark.parametrize("kind", TYPES)
async def test_typed_topic_refuses_other_types(kind: str) -> None:
    topic = TopicDeclaration(name="typed", type=kind)  # type: ignore[arg-type]
    async with running_grpc(topics=(topic,)) as (_, client):
        route = await client.call("QueryRoute", topic={"name": "typed"})
        assert {tuple(queue.accept_message_types) for queue in route.message_queues} == {(TYPES[kind],)}
        for name, message in messages_of_each_type(client, "typed").items():
            answer = await client.send(message)
            assert answer.status.code == (20_000 if name == kind else 40_014), name


async def test_message_group_property_makes_a_fifo_message() -> None:
    topics = TopicDeclaration(name="normal", type="normal"), TopicDeclaration(name="fifo", type="fifo")
    async with running_grpc(topics=topics) as (_, client):
        for topic, code in (("normal", 40_014), ("fifo", 20_000)):
            message = client.message("m", topic, properties={"__SHARDINGKEY": "g"})
            assert (await client.send(message)).status.code == code


async def test_types_and_order_are_set_by_json_cli_and_mqadmin() -> None:
    async with running_grpc() as (emulator, client), ClientSession() as session:
        api = Api(emulator, session)
        made = await api.ok("PUT", "/v1/topics/typed", {"type": "delay"})
        assert made["type"] == "delay"
        assert (await api.ok("PUT", "/v1/topics/typed", {"read_queues": 8}))["type"] == "delay"
        alone = runner(MOCKETMQ_URL=emulator.url)
        args = ["topics", "create", "second", "--type", "fifo"]
        told = await asyncio.to_thread(alone.invoke, commands, args)
        assert told.stdout == "topic second has 4 queues and accepts fifo messages\n"
        assert emulator.remoting
        async with connected("127.0.0.1", emulator.remoting.broker_port) as remoting:
            ext = {"topic": "third", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
            ext |= {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": "false"}
            await remoting.ok(17, ext | {"attributes": "+message.type=TRANSACTION"})
        for topic, kind in (("typed", "delay"), ("second", "fifo"), ("third", "transaction")):
            for name, message in messages_of_each_type(client, topic).items():
                assert (await client.send(message)).status.code == (20_000 if name == kind else 40_014)
        assert (await api.ok("PUT", "/v1/topics/typed", {"type": "mixed"}))["type"] == "mixed"
        assert (await client.send(client.message("m", "typed"))).status.code == 20_000
        assert (await api.ok("PUT", "/v1/groups/billing", {"fifo": True}))["fifo"]
        assert (await api.ok("PUT", "/v1/groups/billing", {}))["fifo"]
        async with client.telemetry() as telemetry:
            assert (await telemetry.consume()).settings.subscription.fifo


async def test_namespaces_of_clients_are_removed_as_by_the_proxy() -> None:
    async with running_grpc() as (_, client):
        client.metadata["x-mq-namespace"] = "test"
        message = client.message("m")
        message.topic.resource_namespace = "test"
        assert (await client.send(message)).status.code == 20_000
        [got] = await client.receive()
        assert (got.topic.name, got.topic.resource_namespace) == ("orders", "")
        route = await client.call("QueryRoute", topic={"name": "orders", "resource_namespace": "other"})
        assert route.message_queues[0].topic.resource_namespace == "other"


@pytest.mark.parametrize("kind", ["mixed", None])
async def test_untyped_and_mixed_topics_take_every_type(kind: str | None) -> None:
    topic = TopicDeclaration(name="typed", type=kind)  # type: ignore[arg-type]
    async with running_grpc(topics=(topic,)) as (_, client):
        for message in messages_of_each_type(client, "typed").values():
            assert (await client.send(message)).status.code == 20_000


async def test_fifo_group_waits_for_earlier_acknowledgements() -> None:
    async with running_grpc(groups=(GroupDeclaration(name="billing", fifo=True),)) as (_, client):
        for body in "01234":
            await client.send(client.message(body, message_group="g"))
        async with client.telemetry() as telemetry:
            assert (await telemetry.consume()).settings.subscription.fifo
        [zero, one] = await client.receive(batch_size=2)
        assert await client.receive() == []
        await client.ack(zero)
        assert await client.receive() == []
        changed = await client.change(one, 0)
        assert changed.receipt_handle == one.system_properties.receipt_handle
        again = await client.receive()
        assert [each.body for each in again] == [b"1", b"2", b"3", b"4"]
        assert again[0].system_properties.delivery_attempt == 2


async def test_repeated_attempt_gets_the_same_messages() -> None:
    async with running_grpc(groups=(GroupDeclaration(name="billing", fifo=True),)) as (_, client):
        await client.send(client.message("m", message_group="g"))
        for _ in range(2):
            [got] = await client.receive(attempt_id="a")
            assert got.system_properties.delivery_attempt == 1
        assert await client.receive(attempt_id="b") == []


def test_file_declares_topic_types_and_fifo_groups(tmp_path: Path) -> None:
    file = tmp_path / "mocketmq.toml"
    file.write_text('[[topics]]\nname = "t"\ntype = "delay"\n[[groups]]\nname = "g"\nfifo = true\n')
    settings = load_settings({}, {}, file)
    assert (settings.topics[0].type, settings.groups[0].fifo) == ("delay", True)
    file.write_text('[[topics]]\nname = "t"\ntype = "late"\n')
    with pytest.raises(SettingError, match=r"normal or fifo .* priority or lite or mixed"):
        load_settings({}, {}, file)
