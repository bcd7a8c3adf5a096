"""Offset message ids name the broker's listening port, in every protocol and after a restart."""

import socket
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from mocketmq.clock import US_PER_S
from mocketmq.errors import MessageNotFoundError
from mocketmq.message.message_id import offset_message_id
from mocketmq.remoting.listening.ports import bind_ports, store_host_of
from mocketmq.remoting.wire.record import decode_records
from mocketmq.settings import Settings
from tests.doors.remoting.producing import UNIQUE, sent
from tests.support.api import Api
from tests.support.brokers import FREE_PORTS, running_broker, send
from tests.support.remoting import Remoting, running_remoting

GIVEN: list[dict[str, str]] = [{}, {"DELAY": "1"}, {"TIMER_DELAY_SEC": "1"}]
VIEW, SEND_BACK = 33, 36


async def shown(remoting: Remoting, message_id: str) -> list[Mapping[str, Any]]:
    """Return the records of a message from the JSON API."""
    async with ClientSession() as session:
        life = await Api(remoting.emulator, session).ok("GET", f"/v1/messages/{message_id}")
        records: list[Mapping[str, Any]] = life["records"]
        return records


@pytest.mark.parametrize("given", GIVEN)
async def test_ids_name_the_brokers_port(given: dict[str, str]) -> None:
    async with running_remoting() as remoting, ClientSession() as session:
        host = f"127.0.0.1:{remoting.server.broker_port}"
        by_client = await sent(remoting.client, properties=given)
        assert by_client["msgId"] == offset_message_id(host, int(by_client["msgId"][16:], 16))
        fields: dict[str, Any] = {"DELAY": {"delay_level": 1}, "TIMER_DELAY_SEC": {"delay_ms": 1_000}}
        by_json = await Api(remoting.emulator, session).send("x", **fields.get(next(iter(given), ""), {}))
        assert by_json["offset_message_id"] == offset_message_id(host, by_json["log_offset"])
        await remoting.broker.mover.advance(1 * US_PER_S)
        for message_id in (by_client["msgId"], by_json["offset_message_id"]):
            for record in await shown(remoting, message_id):
                assert record["store_host"] == host
                assert record["offset_message_id"] == offset_message_id(host, record["log_offset"])
                assert record["parked_offset_message_id"] in (None, message_id)


async def test_retry_keeps_the_port_of_the_original_id() -> None:
    async with running_remoting() as remoting:
        await remoting.broker.registry.groups.put("billing", 0, 1)
        message_id = (await sent(remoting.client, properties={"UNIQ_KEY": UNIQUE}))["msgId"]
        back = {"offset": str(int(message_id[16:], 16)), "group": "billing", "delayLevel": "0"}
        await remoting.client.ok(SEND_BACK, back)
        [_, dead] = await shown(remoting, UNIQUE)
        assert dead["properties"]["ORIGIN_MESSAGE_ID"] == message_id


@pytest.mark.parametrize("given", GIVEN)
async def test_handles_are_valid_after_a_restart_on_another_port(
    given: dict[str, str], tmp_path: Path
) -> None:
    data = str(tmp_path / "data")
    async with running_remoting(data=data, host="0.0.0.0") as remoting:  # noqa: S104 - several addresses
        port = remoting.server.broker_port
        old = (await sent(remoting.client, properties={"UNIQ_KEY": UNIQUE, **given}))["msgId"]
        async with remoting.another(host="127.0.0.2") as client:
            other = (await sent(client, properties={"UNIQ_KEY": "other", **given}))["msgId"]
            assert other.startswith("7F000002")
    with closing(socket.socket()) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of the first broker linger
        taken.bind(("127.0.0.1", port))
        async with running_remoting(data=data) as remoting:
            host = f"127.0.0.1:{remoting.server.broker_port}"
            [record] = await shown(remoting, old)
            assert (record["message_id"], record["store_host"]) == (UNIQUE, host)
            assert record["offset_message_id"] == offset_message_id(host, int(old[16:], 16))
            assert await shown(remoting, record["offset_message_id"]) == [record]
            [record] = await shown(remoting, other)
            assert record["message_id"] == "other"
            viewed = await remoting.client.ok(VIEW, {"offset": str(int(old[16:], 16))})
            assert [record.store_host for record in decode_records(viewed.body)] == [host]
            if given:
                await remoting.broker.pending.cancel(old)
                assert remoting.broker.pending.count == 1


async def test_id_of_another_broker_is_not_found() -> None:
    async with running_broker(remoting=True) as broker:
        first = (await send(broker, "first")).stored
        ip, _, port = first.store_host.rpartition(":")
        for elsewhere in (f"10.1.2.3:{port}", f"{ip}:1234"):
            message_id = offset_message_id(elsewhere, first.log_offset)
            with pytest.raises(MessageNotFoundError, match=message_id):
                await broker.histories.records(message_id)
            second = (await send(broker, "second", UNIQ_KEY=message_id)).stored
            assert await broker.histories.records(message_id) == [second]
        missing = offset_message_id(first.store_host, 77)
        with pytest.raises(MessageNotFoundError, match=missing):
            await broker.histories.records(missing)


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ({}, "127.0.0.1:{}"),
        ({"host": "0.0.0.0"}, "127.0.0.1:{}"),  # noqa: S104
        ({"host": "127.0.0.2"}, "127.0.0.2:{}"),
        ({"host": "localhost"}, "127.0.0.1:{}"),
        ({"host": "::1"}, "127.0.0.1:{}"),
        ({"host": "::"}, "127.0.0.1:{}"),
        ({"advertise": "10.1.2.3"}, "10.1.2.3:{}"),
        ({"advertise": "10.1.2.3:1234"}, "10.1.2.3:1234"),
        ({"advertise": "names.test:1234"}, "127.0.0.1:1234"),
    ],
)
def test_ready_addresses_name_a_reachable_host(given: dict[str, str], host: str) -> None:
    settings = Settings(**FREE_PORTS, **given)  # type: ignore[arg-type]
    with closing(bind_ports(settings)) as ports:
        assert store_host_of(settings, ports) == host.format(ports.broker_port)


def test_ids_without_remoting_name_the_configured_port() -> None:
    assert store_host_of(Settings(remoting=False), None) == "127.0.0.1:10911"
