"""Requests that the broker forwards to consumers: 223, 307, 309 (docs/protocol/remoting.md §2.6)."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from click.testing import Result

from mocketmq import BrokerError, Client
from mocketmq.cli import commands
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.record import decode_records
from tests.doors.remoting.consuming import HEART_BEAT, beat, committed, consumer, join
from tests.doors.remoting.producing import UNIQUE, sent
from tests.support.brokers import GROUP, TOPIC
from tests.support.command_line import runner
from tests.support.patience import PATIENCE_S
from tests.support.remoting import Remoting, RemotingClient, running_remoting

STATUS, INFO, DIRECTLY, CLIENT_STATUS = 223, 307, 309, 221
ONE = {"consumerGroup": GROUP, "clientId": "one"}
QUEUE = b'{"brokerName":"broker-a","queueId":0,"topic":"%b"}' % TOPIC.encode()


async def asked_of(
    client: RemotingClient, admin: RemotingClient, code: int, ext: Mapping[str, str], answer: bytes = b"{}"
) -> tuple[Command, Command]:
    """Return the request that the broker forwards to a client, and the answer after the client's answer."""
    asking = admin.ask(code, ext)
    asked = await client.push()
    client.send(asked.answer(0, {}, answer, None))
    async with asyncio.timeout(PATIENCE_S):
        return asked, await asking


async def refusal(admin: RemotingClient, code: int, ext: Mapping[str, str]) -> tuple[int, str]:
    """Send a request that fails, and return code and remark."""
    answer = await admin.call(code, ext)
    return answer.code, str(answer.remark)


@pytest.mark.parametrize("stacks", ["true", "false"])
async def test_running_info_is_passed_on_unchanged(stacks: str) -> None:
    async with running_remoting() as remoting, remoting.another() as client:
        await join(client)
        info = b'{"mqTable":{{"queueId":0}:{"commitOffset":3}},"statusTable":{},"jstack":"\xc3\xbc"}'
        asked, told = await asked_of(client, remoting.client, INFO, {**ONE, "jstackEnable": stacks}, info)
        assert (asked.code, asked.ext, asked.body) == (INFO, {**ONE, "jstackEnable": stacks}, b"")
        assert (told.code, told.remark, told.body) == (0, None, info)


async def test_running_info_may_lack_stacks_and_hold_any_json() -> None:
    async with running_remoting() as remoting, remoting.another() as client:
        await join(client)
        asked, told = await asked_of(client, remoting.client, INFO, ONE, b"\x00no JSON")
        assert asked.ext["jstackEnable"] == "false"
        assert (told.code, told.body) == (0, b"\x00no JSON")


async def test_a_message_is_consumed_directly() -> None:
    async with running_remoting() as remoting, remoting.another() as client:
        await join(client)
        told = await sent(remoting.client, b"again", properties={"UNIQ_KEY": UNIQUE, "TAGS": "a"})
        await sent(remoting.client, b"other")
        result = b'{"order":false,"autoCommit":true,"consumeResult":"CR_SUCCESS","spentTimeMills":3}'
        for message_id in (told["msgId"], UNIQUE):
            asked, answer = await asked_of(
                client, remoting.client, DIRECTLY, {**ONE, "msgId": message_id, "topic": TOPIC}, result
            )
            assert (asked.code, asked.ext) == (
                DIRECTLY,
                {**ONE, "msgId": told["msgId"], "brokerName": "broker-a", "topic": TOPIC},
            )
            [record] = decode_records(asked.body)
            assert (record.topic, record.body, record.queue_offset) == (TOPIC, b"again", 0)
            assert record.store_host == remoting.server.broker_address
            assert (answer.code, answer.body) == (0, result)
        assert await committed(remoting.client) == 0


@pytest.mark.parametrize("delay", [{"DELAY": "3"}, {"TIMER_DELAY_SEC": "10"}])
async def test_a_delayed_message_is_consumed_directly_once_it_is_delivered(delay: dict[str, str]) -> None:
    async with running_remoting() as remoting, remoting.another() as client:
        await join(client)
        parked = await sent(remoting.client, b"later", properties={"UNIQ_KEY": UNIQUE, **delay})
        waits = (1, f"the message {UNIQUE} is not visible to consumers yet")
        assert await refusal(remoting.client, DIRECTLY, {**ONE, "msgId": UNIQUE}) == waits
        await remoting.broker.mover.advance(20_000_000)
        for message_id in (UNIQUE, parked["msgId"]):
            asked, _ = await asked_of(client, remoting.client, DIRECTLY, {**ONE, "msgId": message_id})
            [record] = decode_records(asked.body)
            assert (record.topic, record.body) == (TOPIC, b"later")


async def test_a_half_message_is_not_consumed_directly() -> None:
    async with running_remoting() as remoting, remoting.another() as client:
        await join(client)
        half = {"UNIQ_KEY": UNIQUE, "TRAN_MSG": "true", "PGROUP": "makers"}
        prepared = await sent(remoting.client, b"perhaps", properties=half, sys_flag=4)
        for message_id in (UNIQUE, prepared["msgId"]):
            found = await refusal(remoting.client, DIRECTLY, {**ONE, "msgId": message_id})
            assert found == (1, f"the message {message_id} is not visible to consumers yet")


@pytest.mark.parametrize("message_id", [None, "", "nothing", "0" * 32, UNIQUE])
async def test_missing_message_is_reported(message_id: str | None) -> None:
    async with running_remoting() as remoting, remoting.another() as client:
        await join(client)
        ext = ONE if message_id is None else {**ONE, "msgId": message_id}
        code, remark = await refusal(remoting.client, DIRECTLY, ext)
        assert (code, "no message has the id" in remark) == (1, True)
        assert client.pushes.empty()


@pytest.mark.parametrize("code", [INFO, DIRECTLY])
async def test_missing_or_old_consumer_is_reported(code: int) -> None:
    async with running_remoting() as remoting, remoting.another() as client:
        found = await refusal(remoting.client, code, ONE)
        assert found == (1, f"The Consumer <{GROUP}> <one> not online")
        await client.ok(HEART_BEAT, body=beat(consumer(group="others"), producers=(GROUP,)))
        found = await refusal(remoting.client, code, ONE)
        assert found == (1, f"The Consumer <{GROUP}> <one> not online")
        await client.ok(HEART_BEAT, body=beat(consumer()), version=61)
        assert await refusal(remoting.client, code, ONE) == (
            1,
            "The Consumer <one> Version <61> too low to finish, please upgrade it to V3_1_8_SNAPSHOT",
        )


@pytest.mark.parametrize("version", [62, 2_147_481_762])
async def test_supported_client_versions_are_asked(version: int) -> None:
    async with running_remoting() as remoting, remoting.another() as client:
        await client.ok(HEART_BEAT, body=beat(consumer()), version=version)
        assert (await client.push()).code == 40
        _, told = await asked_of(client, remoting.client, INFO, ONE)
        assert told.code == 0


async def test_refusal_or_disconnect_of_the_consumer_is_reported() -> None:
    async with running_remoting() as remoting, remoting.another() as client:
        await join(client)
        asking = remoting.client.ask(INFO, ONE)
        remark = f"The Consumer Group <{GROUP}> not exist in this consumer"
        client.send((await client.push()).answer(1, {}, b"", remark))
        answer = await asking
        assert (answer.code, answer.remark, answer.body) == (1, remark, b"")
        asking = remoting.client.ask(INFO, ONE)
        await client.push()
        await client.close()
        answer = await asking
        assert (answer.code, " ended" in str(answer.remark)) == (1, True)


async def test_silent_consumer_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_remoting() as remoting, remoting.another() as client:
        await join(client)
        member = remoting.broker.registry.clients.consumer(GROUP, "one")
        assert member is not None
        call = member.channel.call  # type: ignore[attr-defined]

        def hurried(code: int, ext: Mapping[str, str], body: bytes = b"", timeout_s: float = 0) -> object:
            assert timeout_s in (0, RemotingChannel.status_s)
            return call(code, ext, body, timeout_s=0.01)

        monkeypatch.setattr(member.channel, "call", hurried)
        code, remark = await refusal(remoting.client, INFO, ONE)
        assert (code, "did not answer within" in remark) == (207, True)
        told = await remoting.client.ok(STATUS, {"topic": TOPIC, "group": GROUP})
        assert json.loads(told.body) == {"messageQueueTable": {}, "consumerTable": {}}


# 223


async def test_offsets_of_all_consumers_are_collected() -> None:
    async with running_remoting() as remoting, remoting.another() as one, remoting.another() as two:
        await join(one)
        await join(two, "two")
        assert (await one.push()).code == 40
        asking = remoting.client.ask(STATUS, {"topic": TOPIC, "group": GROUP})
        odd = b'"":1,"{no":2,"[]":3'  # the broken JSON of some client
        bodies = (
            b'{"consumerTable":{},"messageQueueTable":{%b:5}}' % QUEUE,
            b'{"messageQueueTable":{%b}}' % odd,
        )
        for client, body in zip((one, two), bodies, strict=True):
            asked = await client.push()
            assert (asked.code, asked.ext) == (CLIENT_STATUS, {"topic": TOPIC, "group": GROUP})
            client.send(asked.answer(0, {}, body, None))
        told = await asking
        assert told.code == 0
        assert told.body == b'{"messageQueueTable":{},"consumerTable":{"one":{%b:5},"two":{}}}' % QUEUE


async def test_offsets_of_one_consumer_are_returned() -> None:
    async with running_remoting() as remoting, remoting.another() as one, remoting.another() as two:
        await join(one)
        await join(two, "two")
        ext = {"topic": TOPIC, "group": GROUP, "clientAddr": "two"}
        _, told = await asked_of(two, remoting.client, STATUS, ext, b"no JSON")
        assert json.loads(told.body)["consumerTable"] == {"two": {}}
        assert (await one.push()).code == 40
        assert one.pushes.empty()
        told = await remoting.client.ok(STATUS, {**ext, "clientAddr": "nobody"})
        assert json.loads(told.body)["consumerTable"] == {}


async def test_offsets_of_an_offline_group_are_refused() -> None:
    async with running_remoting() as remoting, remoting.another() as client:
        ext = {"topic": TOPIC, "group": GROUP}
        found = await refusal(remoting.client, STATUS, ext)
        assert found == (1, f"No Any Consumer online in the consumer group: [{GROUP}]")
        await client.ok(HEART_BEAT, body=beat(consumer()), version=27)
        found = await refusal(remoting.client, STATUS, ext)
        assert found == (1, "the client does not support this feature. version=27")


# Commands


INFO_OF_JAVA = {
    "mqTable": {"QUEUE": {"commitOffset": 3, "cachedMsgCount": 2, "locked": False}},
    "statusTable": {TOPIC: {"pullTPS": 1.5, "consumeOKTPS": 0.5, "consumeFailedMsgs": 7, "consumeRT": 12.0}},
    "properties": {"PROP_CLIENT_VERSION": "V4_9_8"},
}


def dialect(info: object) -> bytes:
    """Format JSON as Java writes it, with an object as a key."""
    return json.dumps(info).encode().replace(b'"QUEUE"', QUEUE)


@asynccontextmanager
async def answering(
    client: RemotingClient, code: int, answer: bytes, remark: str = ""
) -> AsyncIterator[None]:
    """Make the client answer every request of the broker within the context."""

    async def answer_all() -> None:
        while True:
            asked = await client.pushes.get()
            client.send(asked.answer(code, {}, answer, remark or None))

    task = asyncio.create_task(answer_all())
    try:
        yield
    finally:
        task.cancel()


async def shown(remoting: Remoting, *args: str) -> Result:
    """Run the command, and return its result."""
    alone = runner(MOCKETMQ_URL=remoting.emulator.url)
    return await asyncio.to_thread(alone.invoke, commands, ["client", *args])


async def test_running_info_is_shown_by_api_and_command_line() -> None:
    name = "10.0.0.7@42#1/%2F ü"
    async with running_remoting() as remoting, Client(remoting.emulator.url) as people:
        await join(remoting.client, name)
        async with answering(remoting.client, 0, dialect(INFO_OF_JAVA)):
            info = await people.running_info(name, group=GROUP)
            assert info == json.loads(json.dumps(INFO_OF_JAVA).replace('"QUEUE"', json.dumps(QUEUE.decode())))
            lines = (await shown(remoting, name, "--group", GROUP)).stdout.splitlines()
        assert re.fullmatch(rf"{TOPIC} +0 +3 +2 +no *", lines[2])
        assert re.fullmatch(rf"{TOPIC} +1\.5 +0\.5 +– +7 +12\.0 *", lines[5])


@pytest.mark.parametrize("info", [{}, {"mqTable": {"x:1": {}}, "statusTable": {}}])
async def test_command_line_prints_lists(info: object) -> None:
    async with running_remoting() as remoting:
        await join(remoting.client)
        async with answering(remoting.client, 0, json.dumps(info).encode()):
            told = await shown(remoting, "one", "--group", GROUP)
        assert told.exit_code == 0
        assert "pulled/s" not in told.stdout


async def test_command_line_has_a_consumer_consume() -> None:
    result = {"order": False, "consumeResult": "CR_LATER", "remark": "\x1b[2Jlater", "spentTimeMills": 3}
    async with running_remoting() as remoting, Client(remoting.emulator.url) as people:
        await join(remoting.client)
        await sent(remoting.client, properties={"UNIQ_KEY": UNIQUE})
        async with answering(remoting.client, 0, json.dumps(result).encode()):
            done = await people.consume("one", UNIQUE, group=GROUP)
            assert done == {"result": "CR_LATER", "remark": "\x1b[2Jlater", "spent_ms": 3}
            told = await shown(remoting, "one", "--group", GROUP, "--consume", UNIQUE)
        assert (told.exit_code, told.stdout) == (0, "CR_LATER: \\x1b[2Jlater\n")


async def test_command_line_prints_errors() -> None:
    async with running_remoting() as remoting, Client(remoting.emulator.url) as people:

        async def problem(message_id: str = "") -> tuple[int, str]:
            with pytest.raises(BrokerError) as caught:
                if message_id:
                    await people.consume("one", message_id, group=GROUP)
                else:
                    await people.running_info("one", group=GROUP)
            return caught.value.status, caught.value.title

        assert await problem() == await problem(UNIQUE) == (404, "Client offline")
        await join(remoting.client)
        assert await problem(UNIQUE) == (404, "Message not found")
        async with answering(remoting.client, 1, b"", "no"):
            assert await problem() == (502, "Client failed")
        async with answering(remoting.client, 0, b"[]"):
            assert await problem() == (502, "Client failed")
        await sent(remoting.client, properties={"UNIQ_KEY": UNIQUE})
        async with answering(remoting.client, 0, b'{"remark":"there is no result"}'):
            assert await problem(UNIQUE) == (502, "Client failed")
