"""Brokers declared in the settings file: their names, ports and advertised addresses."""

import json
from pathlib import Path
from typing import Any

import pytest

from mocketmq import Client
from mocketmq.errors import SettingError
from mocketmq.settings_sources import load_settings
from tests.support.grpc import grpc_client
from tests.support.network import quiet_port
from tests.support.process import forked_broker
from tests.support.remoting import connected


def write(folder: Path, text: str) -> Path:
    file = folder / "mocketmq.toml"
    file.write_text(text)
    return file


async def test_declared_brokers_have_their_names_ports_and_addresses(tmp_path: Path) -> None:
    ports = {name: [quiet_port() for _ in range(3)] for name in ("orders-a", "orders-b")}
    config = 'proxy_mode = "local"\n'
    for name, (port, vip_port, grpc_port) in ports.items():
        config += f'[[brokers]]\nname = "{name}"\nport = {port}\nvip_port = {vip_port}\n'
        config += f'grpc_port = {grpc_port}\nadvertise = "{name}.test"\n'
    config += '[[topics]]\nname = "orders"\nbrokers = ["orders-b=2"]\n'
    ready = tmp_path / "ready.json"
    flags = ("--config", str(write(tmp_path, config)), "--ready-file", str(ready))
    async with forked_broker(*flags) as process, Client(process.url) as client:
        doors = (await client.info())["doors"]
        shown: dict[str, Any] = {
            name: [each["broker"]["port"], each["vip"]["port"], each["grpc"]["port"]]
            for name, each in doors["brokers"].items()
        }
        assert shown == ports
        assert [each["advertised"] for each in doors["brokers"].values()] == [
            "orders-a.test",
            "orders-b.test",
        ]
        assert json.loads(ready.read_text()) == doors
        assert [each["name"] for each in await client.brokers()] == list(ports)
        await client.create_topic("everywhere")
        async with connected("127.0.0.1", doors["namesrv"]["port"]) as remoting:
            route = json.loads((await remoting.ok(105, {"topic": "everywhere"})).body)
            assert {each["brokerName"]: each["brokerAddrs"]["0"] for each in route["brokerDatas"]} == {
                name: f"{name}.test:{port}" for name, (port, _, _) in ports.items()
            }
            route = json.loads((await remoting.ok(105, {"topic": "orders"})).body)
            assert [each["brokerName"] for each in route["queueDatas"]] == ["orders-b"]
        async with grpc_client(ports["orders-a"][2]) as grpc:
            answer = await grpc.call("QueryRoute", topic={"name": "everywhere"})
            found = {
                (queue.broker.name, address.host, address.port)
                for queue in answer.message_queues
                for address in queue.broker.endpoints.addresses
            }
            assert found == {(name, f"{name}.test", grpc_port) for name, (_, _, grpc_port) in ports.items()}
        await client.crash_broker("orders-b")
        with pytest.raises(OSError):
            async with connected("127.0.0.1", ports["orders-b"][0]):
                pass


async def test_slaves_have_their_declared_ids_and_ports(tmp_path: Path) -> None:
    port = quiet_port()
    config = f'slaves = 1\n[[brokers]]\nname = "one"\nid = 0\nslave_id = 4\nslave_port = {port}\n'
    config += '[[brokers]]\nname = "two"\n'
    async with (
        forked_broker("--config", str(write(tmp_path, config))) as process,
        Client(process.url) as client,
    ):
        doors = (await client.info())["doors"]
        assert doors["brokers"]["one"]["slave"]["port"] == port
        async with connected("127.0.0.1", doors["namesrv"]["port"]) as remoting:
            table = json.loads((await remoting.ok(106)).body)["brokerAddrTable"]
            ids = {name: sorted(each["brokerAddrs"]) for name, each in table.items()}
            assert ids == {"one": ["0", "4"], "two": ["0", "1"]}
            assert table["one"]["brokerAddrs"]["4"] == f"127.0.0.1:{port}"


async def test_a_promotion_moves_the_advertised_port_with_the_broker(tmp_path: Path) -> None:
    config = 'slaves = 1\n[[brokers]]\nname = "one"\nadvertise = "one.test:7777"\n'
    async with (
        forked_broker("--config", str(write(tmp_path, config))) as process,
        Client(process.url) as client,
    ):
        doors = (await client.info())["doors"]
        slave_address = f"one.test:{doors['brokers']['one']['slave']['port']}"
        async with connected("127.0.0.1", doors["namesrv"]["port"]) as remoting:
            for expected in (["one.test:7777", slave_address], [slave_address, "one.test:7777"]):
                table = json.loads((await remoting.ok(106)).body)["brokerAddrTable"]
                assert table["one"]["brokerAddrs"] == dict(zip("01", expected, strict=True))
                await client.promote_slave("one")


async def test_a_broker_can_be_declared_alone_by_its_name(tmp_path: Path) -> None:
    config = write(tmp_path, '[[brokers]]\nname = "rocketmq-0"\n')
    async with forked_broker("--config", str(config)) as process, Client(process.url) as client:
        doors = (await client.info())["doors"]
        assert doors["brokers"]["rocketmq-0"]["broker"] == doors["broker"]
        await client.send("orders", "hello")
        async with connected("127.0.0.1", doors["broker"]["port"]) as remoting:
            route = json.loads((await remoting.ok(105, {"topic": "orders"})).body)
            assert [each["brokerName"] for each in route["queueDatas"]] == ["rocketmq-0"]
        [received] = await client.receive("orders", group="billing")
        await client.acknowledge("billing", [received])
        await client.crash_broker("rocketmq-0")


async def test_messages_that_waited_for_a_broker_are_delivered_under_its_next_name(tmp_path: Path) -> None:
    flags = ("--clock", "manual", "--data", str(tmp_path / "data"))
    async with forked_broker(*flags, "--brokers", "2") as process, Client(process.url) as client:
        await client.send("orders", "late", queue_id=1, delay="1s")
        await client.crash_broker("broker-b")
        await client.advance("2s")
    config = write(tmp_path, ONE + TWO)
    async with forked_broker(*flags, "--config", str(config)) as process, Client(process.url) as client:
        assert (await client.advance("1s"))["pending"] == 0
        assert [each["body"] for each in await client.receive("orders", group="billing")] == ["late"]


ONE, TWO = '[[brokers]]\nname = "one"\n', '[[brokers]]\nname = "two"\n'


@pytest.mark.parametrize(
    ("text", "flags", "why"),
    [
        (ONE + TWO, {"brokers": "3"}, r"brokers is 3; allowed: 2 or no value, as many as \[\[brokers\]\]"),
        (ONE + ONE, {}, r"brokers\[1\].name is 'one'; allowed: a name that no other table has"),
        ('[[brokers]]\nname = "a.b"\n', {}, r"brokers\[0\].name is 'a.b'; allowed: 1 to 64 of"),
        ("[[brokers]]\nport = 1\n", {}, r"brokers\[0\].name is missing"),
        (ONE + "port = 0\n", {}, r"brokers\[0\].port is 0; allowed: a whole number from 1 to 65535"),
        (ONE + 'advertise = "a.test"\n' + TWO, {}, r"brokers\[1\].advertise is missing; .*others have it"),
        (ONE + 'advertise = "a b"\n', {}, r"brokers\[0\].advertise is 'a b'; allowed: host or host:port"),
        (
            ONE + '[[topics]]\nname = "orders"\nbrokers = ["broker-a"]\n',
            {},
            r"topics\[0\].brokers is 'broker-a'",
        ),
        (
            ONE + "id = 1\n",
            {},
            r"brokers\[0\].id is 1; allowed: 0, which is the id of every master; slave_id",
        ),
        (
            ONE + "slave_id = 0\n",
            {},
            r"brokers\[0\].slave_id is 0; allowed: a whole number from 1 to 2147483647",
        ),
        (ONE + "slave_id = 2\n", {}, r"brokers\[0\].slave_id is 2; allowed: no value without slaves = 1"),
        ("slaves = 1\n" + ONE + "slave_port = 0\n", {}, r"brokers\[0\].slave_port is 0; allowed: a whole"),
        ("".join(f'[[brokers]]\nname = "b{number}"\n' for number in range(9)), {}, "1 to 8 tables"),
    ],
)
def test_wrong_declarations_are_refused(tmp_path: Path, text: str, flags: dict[str, str], why: str) -> None:
    with pytest.raises(SettingError, match=why):
        load_settings(flags, {}, write(tmp_path, text))
