"""Sending with RocketMQ's clients for Go and Rust."""

import asyncio
from pathlib import Path

import pytest

from tests.clients.go import building as go_building
from tests.clients.remoting.arrivals import arrives_whole
from tests.clients.remoting.conftest import RemotingBroker, running_remoting_broker
from tests.clients.remoting.driver import WAIT_S, Driver, running_driver
from tests.clients.remoting.snippets import running_program, snippet
from tests.clients.rust import building as rust_building
from tests.clients.rust import versions as rust_versions

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

COMPRESSED = 1
"""Bit of a message's ``sys_flag``."""


@pytest.mark.feature("Send and wait", "go", "rust")
@pytest.mark.feature("A topic that does not exist yet", "go", "rust")
@pytest.mark.feature("Tags, keys and properties", "go", "rust")
@pytest.mark.feature("Push consumer", "go", "rust")
async def test_a_message_arrives_as_it_was_sent(driver: Driver, topic: str) -> None:
    await arrives_whole(driver, topic)


@pytest.mark.feature("Send with a callback", "go", "rust")
@pytest.mark.feature("Send oneway", "go", "rust")
@pytest.mark.feature("Batches", "go", "rust")
async def test_other_ways_to_send(broker: RemotingBroker, client: str, driver: Driver, topic: str) -> None:
    sent = await driver.call("send_async", topic=topic, body="with a callback")
    assert sent["is_ok"]
    await driver.call("send_oneway", topic=topic, body="oneway")
    sent = await driver.call("send_batch", messages=[{"topic": topic, "body": f"{n}"} for n in range(3)])
    assert len(sent["offset_message_id"].split(",")) == 3
    await broker.control.wait_delivered(topic, 5, wait="30s")
    messages = await broker.control.receive(topic, group="GID_billing", max_messages=5)
    assert {message["body"] for message in messages} == {"with a callback", "oneway", "0", "1", "2"}
    if client == "rust":  # Go's client creates no ids for the messages of a batch
        ids = set(sent["message_id"].split(","))
        assert len(ids) == 3
        assert ids <= {message["message_id"] for message in messages}


@pytest.mark.feature("Queues chosen by key or selector", "go", "rust")
async def test_a_key_chooses_the_queue(driver: Driver, topic: str) -> None:
    sent = [
        await driver.call("send_orderly", topic=topic, body=f"{n}", sharding_key=f"{n % 3}") for n in range(9)
    ]
    for part in range(3):
        assert len({one["queue_id"] for one in sent[part::3]}) == 1


@pytest.mark.feature("Large bodies, compressed", "go", "rust")
@pytest.mark.feature("To and from the JSON API", "go", "rust")
async def test_by_json_and_back(broker: RemotingBroker, driver: Driver, single: str) -> None:
    body = "all work and no play " * 5_000
    await driver.call("send", topic=single, body=body)
    await broker.control.send(single, "from JSON", tag="a", keys=["7"])
    messages = await broker.control.receive(single, group="GID_billing", max_messages=2)
    assert [message["body"] for message in messages] == [body, "from JSON"]
    assert messages[0]["sys_flag"] & COMPRESSED
    await driver.call("consume", group=single, topic=single)
    received = [await driver.next(single) for _ in range(2)]  # processed in parallel, so in any order
    # If there is no tag, Go has an empty tag, and Rust has none.
    assert {(one.body, one.tag or None, one.keys or None) for one in received} == {
        (body, None, None),
        ("from JSON", "a", "7"),
    }


@pytest.mark.feature("Namespace", "go", "rust")
@pytest.mark.feature("Access keys are accepted", "go", "rust")
async def test_as_for_aliyun(
    broker: RemotingBroker, command: tuple[str, ...], home: Path, topic: str
) -> None:
    await inside_a_namespace(broker, command, home, topic, name_server=broker.name_server)


@pytest.mark.feature("The address is discovered over HTTP", "go")
async def test_a_discovered_address(
    broker: RemotingBroker, go_client: tuple[str, ...], home: Path, topic: str
) -> None:
    await inside_a_namespace(broker, go_client, home, topic, discovery=f"{broker.url}/rocketmq/nsaddr")


async def inside_a_namespace(
    broker: RemotingBroker, command: tuple[str, ...], home: Path, topic: str, **address: str
) -> None:
    """Send and consume with the options that an instance at Aliyun needs."""
    options = {"namespace": "MQ_INST_1", "access_key": "any", "secret": "any"}
    async with running_driver(command, home, **address, **options) as driver:
        await driver.call("send", topic=topic, body="inside")
        await driver.call("consume", group=topic, topic=topic)
        assert await driver.bodies(topic, 1) == ["inside"]
    [message] = await broker.control.receive(f"MQ_INST_1%{topic}", group="GID_billing")
    assert message["body"] == "inside"


async def test_the_program_of_the_docs_for_go(home: Path, tmp_path: Path) -> None:
    async with running_remoting_broker() as broker:
        source, program = tmp_path / "main.go", tmp_path / "program"
        source.write_text(snippet("go", broker.name_server, broker.url))
        go_building.build(source, program)
        await sends_and_receives_an_order(broker, program, home)


async def test_the_program_of_the_docs_for_rust(home: Path, tmp_path: Path) -> None:
    async with running_remoting_broker() as broker:
        for name in ("Cargo.toml", "Cargo.lock"):
            (tmp_path / name).write_text((rust_versions.FOLDER / name).read_text())
        source = tmp_path / "src" / "bin" / "orders.rs"
        source.parent.mkdir(parents=True)
        source.write_text(snippet("rust", broker.name_server, broker.url))
        program = rust_building.build("orders", tmp_path)
        await sends_and_receives_an_order(broker, program, home)


async def sends_and_receives_an_order(broker: RemotingBroker, program: Path, home: Path) -> None:
    """Check the output of the programs of docs/rocketmq.md."""
    async with running_program(program, home=home) as output, asyncio.timeout(WAIT_S):
        assert len((await output.readline()).strip()) == 32
        [due_ms] = await broker.pending("orders")
        await broker.control.move_to(due_ms)
        assert await output.readline() == b"order 7 was not paid\n"
