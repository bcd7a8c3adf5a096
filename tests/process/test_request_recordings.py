"""`mocketmq serve --record-requests` and the replay of its file, between brokers in processes."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mocketmq import BrokerError, Client
from mocketmq.calling.call import Credentials
from mocketmq.calling.headers import send_ext
from mocketmq.client.messaging import outgoing
from mocketmq.message.properties import START_DELIVER_TIME, UNIQ_KEY
from mocketmq.remoting.wire.codes import RequestCode
from tests.support.grpc import grpc_client
from tests.support.patience import HANGING_S
from tests.support.process import BrokerProcess, forked_broker
from tests.support.recordings import ended, lines
from tests.support.remoting import RemotingClient, connected

MANUAL = ("--clock", "manual")


@asynccontextmanager
async def recording_broker(
    path: Path, *more: str
) -> AsyncIterator[tuple[BrokerProcess, Client, RemotingClient]]:
    """A broker that records into the file, with a client of each kind."""
    async with (
        forked_broker(*MANUAL, "--record-requests", str(path), *more) as broker,
        Client(broker.url) as client,
        connected("127.0.0.1", broker.broker_port) as remoting,
    ):
        yield broker, client, remoting


async def compared(path: Path, *settings: str) -> tuple[int, dict[str, Any], str]:
    """Replay a recording on a new broker. Returns the exit code, the summary and stderr."""
    async with forked_broker(*MANUAL, *settings) as broker:
        done = await ended("replay", str(path), "--url", broker.url, "--json")
    return done.code, json.loads(done.stdout), done.stderr


def sent_ext(topic: str, number: int, **properties: str) -> dict[str, str]:
    """The header of a send whose message was made now."""
    own = {UNIQ_KEY: f"0A01020304050607080900{number:010}"} | properties
    return send_ext(topic, "makers", 0, 0, own) | {"bornTimestamp": str(time.time_ns() // 10**6)}


def pull_ext(offset: int, wait_ms: int) -> dict[str, str]:
    """The header of a pull that waits for a message."""
    return {
        **{"consumerGroup": "readers", "topic": "orders", "queueId": "0", "queueOffset": str(offset)},
        **{"maxMsgNums": "32", "sysFlag": "6", "commitOffset": "0", "subscription": "*"},
        **{"suspendTimeoutMillis": str(wait_ms), "subVersion": "0", "expressionType": "TAG"},
    }


async def json_day(client: Client) -> None:
    """Use the JSON API: delays, receipts, retries, a transaction, queries, refusals, a moving clock."""
    await client.create_topic("orders", queues=3)
    sent = await client.send("orders", '{"id": 7}', keys=["order-7"], tag="A", delay="10s")
    await client.send_batch("orders", [outgoing("one"), outgoing("two", delay_level=2)])
    await client.advance("9s")
    await client.delayed()
    await client.advance("1m")
    received = await client.receive("orders", group="billing", max_messages=8)
    await client.acknowledge("billing", received[:1])
    await client.give_back("billing", received[1:])
    await client.advance("1h")
    again = await client.receive("orders", group="billing", max_messages=8)
    await client.extend("billing", again, "1m")
    half = await client.prepare("orders", "half", group="makers")
    await client.commit(half["message_id"])
    cancelled = await client.send("orders", "never", delay="1d")
    await client.cancel(cancelled["message_id"])
    await client.message(sent["message_id"])
    await client.messages_by_key("order-7", topic="orders")
    await client.topics()
    await client.groups()
    await client.clock()
    with pytest.raises(BrokerError, match="not exist"):
        await client.topic("none")
    await client.reset(clock="start")
    await client.send("orders", "after a reset", delay="10s")
    await client.advance("20s")
    assert len(await client.receive("orders", group="billing")) == 1


async def remoting_day(client: Client, remoting: RemotingClient) -> None:
    """Use RocketMQ's protocol: sends, an absolute due time, pulls that wait, offsets, refusals."""
    await client.create_topic("orders", queues=1)
    await remoting.ok(RequestCode.SEND_MESSAGE, sent_ext("orders", 1), b"\xff binary")
    due_ms = time.time_ns() // 10**6 + 3_600_000
    await remoting.ok(
        RequestCode.SEND_MESSAGE, sent_ext("orders", 2, **{START_DELIVER_TIME: str(due_ms)}), b"in an hour"
    )
    await remoting.ok(RequestCode.PULL_MESSAGE, pull_ext(0, 0))
    waiting = remoting.ask(RequestCode.PULL_MESSAGE, pull_ext(1, 15_000))
    await client.advance("59m")
    assert not waiting.done()
    await client.advance("2m")
    assert (await waiting).body
    empty = remoting.ask(RequestCode.PULL_MESSAGE, pull_ext(2, 300))
    async with asyncio.timeout(HANGING_S):
        await empty
    waiting = remoting.ask(RequestCode.PULL_MESSAGE, pull_ext(2, 15_000))
    await asyncio.gather(
        *(remoting.ok(RequestCode.SEND_MESSAGE, sent_ext("orders", 3 + number), b"x") for number in range(3))
    )
    await waiting
    queue = {"topic": "orders", "queueId": "0"}
    remoting.oneway(
        RequestCode.UPDATE_CONSUMER_OFFSET, queue | {"consumerGroup": "readers", "commitOffset": "2"}
    )
    await remoting.ok(RequestCode.QUERY_CONSUMER_OFFSET, queue | {"consumerGroup": "readers"})
    await remoting.ok(RequestCode.GET_MAX_OFFSET, queue)
    await remoting.ok(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
    await remoting.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "none"})
    await remoting.call(12_345)


async def grpc_day(client: Client, port: int) -> None:
    """Use RocketMQ 5's protocol: settings, sends, a delay, polls that find something or not, refusals."""
    await client.create_topic("orders", queues=1)
    route = {"scheme": 1, "addresses": [{"host": "127.0.0.1", "port": port}]}
    async with grpc_client(port) as grpc, grpc.telemetry() as telemetry:
        await telemetry.consume()
        await grpc.call("QueryRoute", topic={"name": "orders"}, endpoints=route)
        await grpc.call("QueryRoute", topic={"name": "none"}, endpoints=route)
        await grpc.send(grpc.message("one"), grpc.message("two"))
        first, second = await grpc.receive()
        await grpc.ack(first)
        await grpc.change(second, 30)
        assert not await grpc.receive(wait_s=0.2)
        await grpc.send(grpc.message("later", delay_s=60))
        waiting = asyncio.ensure_future(grpc.receive(wait_s=15))
        await grpc.call("Heartbeat", client_type=2, group={"name": "billing"})
        await client.advance("2m")
        assert await waiting
        await grpc.call("NotifyClientTermination", group={"name": "billing"})


async def test_requests_of_the_json_api_are_answered_alike_by_the_same_version(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with recording_broker(path) as (_, client, _):
        await json_day(client)
    code, summary, stderr = await compared(path)
    assert summary["differences"] == []
    assert (code, stderr) == (0, "")
    assert summary["doors"]["json"]["compared"] >= 21
    assert summary["notes"] == {}


async def test_requests_of_remoting_are_answered_alike_by_the_same_version(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with recording_broker(path) as (_, client, remoting):
        await remoting_day(client, remoting)
    code, summary, stderr = await compared(path)
    assert summary["differences"] == []
    assert (code, stderr) == (0, "")
    assert summary["doors"]["remoting"]["compared"] == 15


async def test_requests_of_grpc_are_answered_alike_by_the_same_version(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with recording_broker(path) as (broker, client, _):
        await grpc_day(client, int(broker.grpc.rpartition(":")[2]))
    code, summary, stderr = await compared(path)
    assert summary["differences"] == []
    assert (code, stderr) == (0, "")
    assert summary["doors"]["grpc"]["compared"] == 12


async def test_a_changed_answer_is_named_by_door(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with recording_broker(path) as (_, client, remoting):
        await client.create_topic("orders", queues=1)
        await client.send("orders", "small")
        for number in range(3):
            await remoting.ok(RequestCode.SEND_MESSAGE, sent_ext("orders", number), b"x" * 2_000)
        await client.send("orders", "delayed", delay_level=3)
    async with forked_broker(*MANUAL, "--max-message-bytes", "1K", "--levels", "1s 5s 20s") as broker:
        done = await ended("replay", str(path), "--url", broker.url)
    assert done.code == 1
    assert "json: 3 answers compared, 1 differ" in done.stdout
    assert "remoting: 3 answers compared, 3 differ" in done.stdout
    assert "remoting, SEND_MESSAGE orders, line " in done.stdout
    assert "code is 13, was 0 (3 times)" in done.stdout
    assert "json, POST /v1/topics/orders/messages, line " in done.stdout
    assert "body.due_ms is " in done.stdout
    assert "4 of 6 answers differ" in done.stderr


async def test_a_broker_with_messages_has_other_offsets_and_no_differences(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with recording_broker(path) as (_, client, remoting):
        await client.create_topic("orders", queues=1)
        await remoting.ok(RequestCode.SEND_MESSAGE, sent_ext("orders", 1), b"one")
        await remoting.ok(RequestCode.PULL_MESSAGE, pull_ext(0, 0))
        await remoting.ok(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"})
    async with forked_broker(*MANUAL) as broker, Client(broker.url) as client:
        await client.create_topic("orders", queues=1)
        await client.send_batch("orders", [outgoing("before")] * 5)
        done = await ended("replay", str(path), "--url", broker.url, "--json")
    summary = json.loads(done.stdout)
    assert summary["moved_offsets"] == {"orders/0": 5}
    assert [each for each in summary["differences"] if each["door"] == "remoting"] == []


async def test_requests_of_aliyun_are_answered_alike(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with (
        recording_broker(path, "--topic-queues", "1") as (broker, client, _),
        aiohttp.ClientSession() as session,
    ):
        url = f"{broker.url}/topics/orders/messages"
        await client.create_topic("orders", queues=1)
        text = "<Message><MessageBody>hello</MessageBody><MessageTag>A</MessageTag></Message>"
        for _ in range(2):
            await (await session.post(url, data=text)).read()
        due_ms = time.time_ns() // 10**6 + 60_000
        due = f"<Properties>__STARTDELIVERTIME:{due_ms}|</Properties>"
        delayed = f"<Message><MessageBody>later</MessageBody>{due}</Message>"
        await (await session.post(url, data=delayed)).read()
        got = await (await session.get(f"{url}?consumer=billing&numOfMessages=16")).text()
        handles = "".join(
            part.partition("</")[0].join(("<ReceiptHandle>", "</ReceiptHandle>"))
            for part in got.split("<ReceiptHandle>")[1:]
        )
        settle = f"<ReceiptHandles>{handles}</ReceiptHandles>"
        assert (await session.delete(f"{url}?consumer=billing", data=settle)).status == 204
        assert (await session.get(f"{url}?consumer=billing&numOfMessages=1&waitseconds=1")).status == 404
        await client.advance("2m")
        assert "later" in await (await session.get(f"{url}?consumer=billing&numOfMessages=16")).text()
    code, summary, stderr = await compared(path)
    assert summary["differences"] == []
    assert (code, stderr) == (0, "")
    assert summary["doors"]["aliyun"] == {"compared": 7, "differing": 0}


async def test_credentials_are_never_in_the_file(tmp_path: Path) -> None:
    path, accounts = tmp_path / "requests.jsonl", Credentials("the-access-key", "the-secret-key")
    async with (
        forked_broker(
            *MANUAL,
            *("--record-requests", str(path), "--token", "the-token"),
            *("--access-keys", f"{accounts.access_key}:{accounts.secret}"),
        ) as broker,
        Client(broker.url, "the-token") as client,
        connected("127.0.0.1", broker.broker_port, accounts) as remoting,
    ):
        await client.create_topic("orders", queues=1)
        await remoting.ok(RequestCode.SEND_MESSAGE, sent_ext("orders", 1), b"one")
        user = json.dumps({"username": "someone", "password": "the-password", "userType": "Normal"})
        await remoting.call(RequestCode.AUTH_CREATE_USER, {"username": "someone"}, user.encode())
    text = path.read_text()
    assert len(lines(path)) > 6
    for secret in ("the-token", accounts.access_key, accounts.secret, "the-password"):
        assert secret not in text
    assert json.loads(lines(path)[-3]["content"].get("body", "{}") or "{}") is not None


async def test_masks_hide_messages_in_requests_and_answers(tmp_path: Path) -> None:
    path, messages = tmp_path / "requests.jsonl", tmp_path / "messages.jsonl"
    masks = ("--record-mask", "body.phone,keys,properties.region=hash", "--record", str(messages))
    body = json.dumps({"id": 7, "phone": "13800138000"})
    async with recording_broker(path, *masks) as (broker, client, remoting):
        await client.create_topic("orders", queues=1)
        await client.send("orders", body, keys=["order-7"], properties={"region": "eu-west"})
        await remoting.ok(
            RequestCode.SEND_MESSAGE, sent_ext("orders", 1, KEYS="order-7", region="eu-west"), body.encode()
        )
        await remoting.ok(RequestCode.PULL_MESSAGE, pull_ext(0, 0))
        await client.receive("orders", group="billing", max_messages=9)
        await client.messages_by_key("order-7", topic="orders")
        async with aiohttp.ClientSession() as session:
            url = f"{broker.url}/topics/orders/messages"
            text = f"<Message><MessageBody>{body}</MessageBody><MessageKey>order-7</MessageKey></Message>"
            await session.post(url, data=text)
            await session.get(f"{url}?consumer=readers&numOfMessages=16")
    for each in (path, messages):
        text = each.read_text()
        assert text.count("***") >= 3
        for hidden in ("13800138000", "order-7", "eu-west"):
            assert hidden not in text, each
    assert (await compared(path))[1]["notes"] == {}


async def test_a_killed_broker_leaves_a_file_that_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with recording_broker(path) as (broker, client, _):
        await client.create_topic("orders", queues=1)
        async with asyncio.timeout(HANGING_S):
            while path.read_bytes().count(b'"answer"') < 20:
                await client.send("orders", "x")
        broker.kill()
        await broker.wait()
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 9])
    code, summary, _ = await compared(path)
    assert (code, summary["differing"]) == (0, 0)
    assert summary["compared"] >= 19
    assert summary["notes"]["last line cut off, and left out"] == 1
    async with forked_broker(*MANUAL, "--record-requests", str(path)) as broker, Client(broker.url) as client:
        await client.topics()
    kinds = [each["kind"] for each in lines(path)]
    assert kinds.count("start") == 2
    assert kinds[-2:] == ["answer", "left"] or kinds[-1] == "answer"
    code, summary, _ = await compared(path)
    assert "last line cut off, and left out" not in summary["notes"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("--record-mask", "keys"), "no value unless record or record_requests is set"),
        (("--record-requests", "{file}", "--record-mask", "phone"), "allowed: body, a path"),
        (("--record-requests", "/no/such/place/r.jsonl"), "--record-requests is '/no/such/place/r.jsonl'"),
        (("--record-requests", "{messages}"), "of another kind, or with other masks"),
    ],
)
async def test_wrong_settings_are_refused(settings: tuple[str, ...], said: str, tmp_path: Path) -> None:
    messages = tmp_path / "messages.jsonl"
    messages.write_text('{"recording": 1, "source": "mocketmq", "queues": {}}\n')
    words = [each.format(file=tmp_path / "r.jsonl", messages=messages) for each in settings]
    done = await ended("serve", "--port", "0", "--data", ":memory:", *words)
    assert done.code == 2
    assert said in done.stderr


async def test_a_topic_map_is_refused_for_requests(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text('{"recording":1,"source":"mocketmq","queues":{},"requests":true}\n')
    done = await ended("replay", str(path), "--topic-map", "a=b")
    assert done.code == 2
    assert "this is a recording of requests" in done.stderr
