"""Traces of Java clients."""

from pathlib import Path

import pytest

from tests.clients.java.building import java_command
from tests.clients.remoting import traces
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import running_driver
from tests.clients.remoting.traces import COMMIT, DELAY, HALF, NORMAL, Traces

pytestmark = [
    pytest.mark.interop,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.usefixtures("built"),
]


@pytest.mark.feature("Message trace", "java-4.9", "java-5.5")
@pytest.mark.parametrize("trace_topic", [None, "own-traces"])
async def test_trace(
    client: str, broker: RemotingBroker, home: Path, topic: str, trace_topic: str | None
) -> None:
    options = {"trace_topic": trace_topic} if trace_topic else {}
    command = (*java_command(client, home), "rocketmq.TraceDriver")
    found = Traces(broker, trace_topic or traces.TOPIC)
    async with running_driver(command, home, name_server=broker.name_server, **options) as driver:
        message_id = await driver.call("send", topic=topic, tag="a", keys="k1 k2", body="hello")
        later_id = await driver.call("send", topic=f"{topic}-later", body="later", delay_level=3)
        [sent] = await found.of("Pub", message_id=message_id)
        [later] = await found.of("Pub", message_id=later_id)

        assert (sent["region"], sent["group"], sent["topic"]) == ("DefaultRegion", "GID_java_traced", topic)
        assert (sent["tags"], sent["keys"], sent["body_length"]) == ("a", "k1 k2", "5")
        assert (sent["kind"], sent["success"], later["kind"]) == (NORMAL, "true", DELAY)
        assert sent["store_host"] == f"{broker.host}:{broker.port}"
        assert (await broker.control.message(sent["offset_message_id"]))["message_id"] == message_id
        assert {message_id, later_id, "k1", "k2"} <= found.keys

        await driver.call("consume", topic=topic, group=topic)
        before, after = await found.of("SubBefore", "SubAfter", message_id=message_id)
        assert (before["group"], before["times"], before["keys"]) == (topic, "0", "k1 k2")
        assert (after["request_id"], after["success"], after["group"]) == (
            before["request_id"],
            "false",
            topic,
        )
        await broker.pending(f"%RETRY%{topic}")
        await broker.control.advance("10s")
        await found.read(lambda all_: len(consumed(all_, message_id)) == 2)
        assert [one["success"] for one in consumed(found.records, message_id)] == ["false", "true"]


def consumed(records: list[traces.Record], message_id: str) -> list[traces.Record]:
    """Return the trace records of all attempts to consume a message."""
    return [one for one in records if one["type"] == "SubAfter" and one["message_id"] == message_id]


@pytest.mark.feature("Message trace", "java-4.9", "java-5.5")
async def test_trace_of_a_transaction(client: str, broker: RemotingBroker, home: Path, topic: str) -> None:
    command = (*java_command(client, home), "rocketmq.TraceDriver")
    found = Traces(broker, traces.TOPIC)
    async with running_driver(command, home, name_server=broker.name_server) as driver:
        message_id = await driver.call("commit", topic=topic, group=f"GID_{topic}", keys="k", body="hello")
        sent, ended = await found.of("Pub", "EndTransaction", message_id=message_id)
        assert (sent["kind"], sent["success"]) == (HALF, "true")
        assert (ended["topic"], ended["keys"], ended["group"]) == (topic, "k", f"GID_{topic}")
        assert (ended["kind"], ended["state"], ended["from_check"]) == (COMMIT, "COMMIT_MESSAGE", "false")
        assert ended["transaction_id"] == message_id
        assert ended["store_host"] == f"{broker.host}:{broker.port}"
