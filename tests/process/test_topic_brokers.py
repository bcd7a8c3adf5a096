"""Topics at chosen brokers: by JSON, from Python, on the command line and in the settings file."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mocketmq import BrokerError, Client
from mocketmq.errors import SettingError
from mocketmq.settings_sources import load_settings
from tests.support.command_line import Shell
from tests.support.process import forked_broker

A, B = "broker-a", "broker-b"


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with forked_broker("--clock", "manual", "--brokers", "2") as process:
        yield process.url


def queues_at(topic: dict[str, Any]) -> dict[str, int]:
    assert all(each["read_queues"] == each["write_queues"] for each in topic["brokers"])
    return {each["name"]: each["read_queues"] for each in topic["brokers"]}


def queue_ids(topic: dict[str, Any]) -> list[int]:
    return [queue["queue_id"] for queue in topic["queues"]]


async def test_a_topic_at_one_broker_by_python(url: str) -> None:
    async with Client(url) as client:
        topic = await client.create_topic("orders", queues=2, brokers=[B])
        assert (queues_at(topic), queue_ids(topic)) == ({B: 2}, [1, 3])
        for number in range(8):
            await client.send("orders", str(number))
        topic = await client.topic("orders")
        assert [queue["queue_id"] for queue in topic["queues"] if queue["max_offset"]] in ([1], [3], [1, 3])
        assert queues_at(await client.create_topic("orders", queues=3)) == {B: 3}
        topic = await client.create_topic("orders", queues=1, brokers=[A])
        assert queues_at(topic) == {A: 1}
        assert set(queue_ids(topic)) > {0}  # the queues with messages are shown, too
        assert await client.receive("orders", group="billing") == []
        await client.create_topic("orders", queues=3, brokers=[A, B])
        assert len(await client.receive("orders", group="billing", max_messages=16)) == 8


async def test_other_numbers_of_queues_at_each_broker(url: str) -> None:
    async with Client(url) as client:
        topic = await client.create_topic("orders", brokers={A: 1, B: 3})
        assert (queues_at(topic), queue_ids(topic)) == ({A: 1, B: 3}, [0, 1, 3, 5])
        assert (topic["read_queues"], topic["write_queues"]) == (3, 3)
        for queue_id in (2, 4, 6):
            with pytest.raises(BrokerError, match="is illegal"):
                await client.send("orders", "x", queue_id=queue_id)
        await client.crash_broker(B)
        assert {(await client.send("orders", "x"))["queue_id"] for _ in range(10)} == {0}


async def test_each_broker_keeps_what_a_change_omits(url: str) -> None:
    async with Client(url) as client:
        await client.create_topic("orders", brokers={A: 1, B: 3})
        assert queues_at(await client.create_topic("orders")) == {A: 1, B: 3}
        topic = await client.put_topic("orders", perm="r")
        assert [(each["perm"], each["read_queues"]) for each in topic["brokers"]] == [("r", 1), ("r", 3)]
        assert queues_at(await client.create_topic("orders", brokers=[A])) == {A: 1}
        topic = await client.create_topic("orders", brokers={A: 2, B: None})
        assert queues_at(topic) == {A: 2, B: 1}
        assert topic["perm"] == "r"


async def test_permissions_of_each_broker(url: str) -> None:
    async with Client(url) as client:
        brokers = [{"name": A, "perm": "r"}, {"name": B, "write_queues": 1}]
        await client._call("PUT", "/v1/topics/orders", {"brokers": brokers})
        topic = await client.topic("orders")
        assert topic["brokers"] == [
            {"name": A, "read_queues": 4, "write_queues": 4, "perm": "r"},
            {"name": B, "read_queues": 4, "write_queues": 1, "perm": "rw"},
        ]
        assert {(await client.send("orders", "x"))["queue_id"] for _ in range(10)} == {1}


@pytest.mark.parametrize(
    ("brokers", "status", "why"),
    [(["broker-c"], 404, "broker-a or broker-b"), ([A, A], 400, "each broker once"), ([], 400, "1")],
)
async def test_wrong_brokers_are_refused(url: str, brokers: list[str], status: int, why: str) -> None:
    async with Client(url) as client:
        with pytest.raises(BrokerError, match=why) as refused:
            await client.create_topic("orders", brokers=brokers)
        assert refused.value.status == status


async def test_the_command_line_chooses_brokers(url: str) -> None:
    shell = Shell(url)
    made = await shell("topics", "create", "orders", "--queues", "2", "--broker", B, "--broker", f"{A}=5")
    assert made.stdout == "topic orders has 2 at broker-b, 5 at broker-a queues\n"
    async with Client(url) as client:
        assert queues_at(await client.topic("orders")) == {A: 5, B: 2}
    refused = await shell("topics", "create", "orders", "--broker", f"{A}=0")
    assert (refused.code, "N from 1 to 1024" in refused.stderr) == (2, True)
    await shell("topics", "create", "invoices", "--broker", B)
    rows = [line.split() for line in (await shell("topics")).stdout.splitlines()]
    assert [row[-2:] for row in rows if row and row[0] == "invoices"] == [["0", "broker-b=4"]]


async def test_declared_topics_are_at_their_brokers(tmp_path: Path) -> None:
    config = tmp_path / "mocketmq.toml"
    config.write_text(
        f"""brokers = 2
[[topics]]
name = "orders"
brokers = ["{B}"]
[[topics]]
name = "invoices"
write_queues = 2
brokers = ["{A}=1", "{B}"]
[[topics]]
name = "everywhere"
"""
    )
    async with forked_broker("--config", str(config)) as process, Client(process.url) as client:
        found = {name: (await client.topic(name))["brokers"] for name in ("orders", "invoices", "everywhere")}
        shown = {
            name: [(each["name"], each["read_queues"], each["write_queues"]) for each in brokers]
            for name, brokers in found.items()
        }
        assert shown == {
            "orders": [(B, 4, 4)],
            "invoices": [(A, 1, 1), (B, 4, 2)],
            "everywhere": [(A, 4, 4), (B, 4, 4)],
        }
        await client.create_topic("everywhere", brokers=[A])
        await client.reset(forget=True)
        assert queues_at(await client.topic("everywhere")) == {A: 4, B: 4}


@pytest.mark.parametrize(
    ("brokers", "why"),
    [
        ('["broker-c"]', r"topics\[0\].brokers is 'broker-c'; allowed: broker-a or broker-b"),
        ('["broker-a", "broker-a"]', "each once"),
        ('["broker-a=0"]', "N from 1 to 1024"),
        ("[1.5]", "names of brokers"),
        ("[]", "names of brokers"),
    ],
)
def test_wrong_brokers_of_declared_topics_are_refused(tmp_path: Path, brokers: str, why: str) -> None:
    config = tmp_path / "mocketmq.toml"
    config.write_text(f'brokers = 2\n[[topics]]\nname = "orders"\nbrokers = {brokers}\n')
    with pytest.raises(SettingError, match=why):
        load_settings({}, {}, config)
