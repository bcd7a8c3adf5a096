"""Hostile and broken clients: the broker stays up, others are unaffected, and memory is released."""

import asyncio
import json
import random
import resource
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import get_type_hints

import psutil
import pytest
import pytest_asyncio
from aiohttp import ClientSession

from mocketmq.remoting.requests.families import REQUESTS
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.command import JSON, ROCKETMQ, Command
from mocketmq.remoting.wire.frame import FrameReader, encode
from tests.support.patience import HANGING_S, PATIENCE_S
from tests.support.process import BrokerProcess, broker_process
from tests.support.remoting import READERS, RemotingClient, connected
from tests.support.waiting import metric_reaches

MB = 1 << 20
SEND = dict(zip("abcdefgh", ("PG", "orders", "TBW102", "1", "0", "0", "1", "0"), strict=True))
PULL = {
    **{"consumerGroup": "billing", "topic": "orders", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32"},
    **{"sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "300000", "subVersion": "0"},
    **{"subscription": "*", "expressionType": "TAG"},
}


class Victim:
    """A broker in its own process, with a client that must stay unaffected."""

    def __init__(self, process: BrokerProcess, bystander: RemotingClient, session: ClientSession) -> None:
        self.process = process
        self.bystander = bystander
        self._session = session

    @asynccontextmanager
    async def attacked(self, returned_mb: int = 40) -> AsyncIterator[None]:
        """Check that an attack within the context leaves the broker unharmed, except for some megabytes."""
        before = self.memory()
        yield
        await self.unharmed()
        await self.metric("mocketmq_remoting_connections", 1)
        await self.metric("mocketmq_remoting_held_bytes", 0)
        await self.metric("mocketmq_remoting_unread_bytes", 0)
        async with asyncio.timeout(HANGING_S):
            while self.memory() - before >= returned_mb * MB:  # the allocator returns memory with a delay
                await self.unharmed()

    async def unharmed(self) -> None:
        """Check that others are served, on existing and on new connections."""
        assert (await self.bystander.call(105, {"topic": "TBW102"})).code == 0
        async with self.another() as client:
            assert (await client.call(105, {"topic": "TBW102"})).code == 0

    @asynccontextmanager
    async def another(self) -> AsyncIterator[RemotingClient]:
        async with connected(*self.process.name_server) as client:
            yield client

    def memory(self) -> int:
        """Return the broker's memory in bytes."""
        size: int = psutil.Process(self.process.pid).memory_info().rss
        return size

    async def metric(self, name: str, wanted: int) -> None:
        """Wait until the gauge has this value."""
        await metric_reaches(self.process.url, name, wanted)


@asynccontextmanager
async def running_victim() -> AsyncIterator[Victim]:
    async with (
        broker_process() as process,
        connected(*process.name_server) as bystander,
        ClientSession() as session,
    ):
        yield Victim(process, bystander, session)
    assert "Traceback" not in process.stderr


@pytest.fixture
async def victim() -> AsyncIterator[Victim]:
    async with running_victim() as victim:
        yield victim


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def veteran() -> AsyncIterator[Victim]:
    """Run a victim that consecutive tests share."""
    async with running_victim() as victim:
        yield victim


GARBAGE = {
    "zeros": bytes(64),
    "ones": b"\xff" * 64,
    "http": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "tls": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "too-large": struct.pack(">iI", 16 * MB + 1, 100),
    "negative": struct.pack(">iI", -1, 100),
    "header-beyond-frame": struct.pack(">iI", 20, 100),
    "unknown-form": struct.pack(">iI", 8, 7 << 24 | 4) + b"{}{}",
    "not-json": struct.pack(">iI", 8, 4) + b"nope",
    "json-of-another-kind": struct.pack(">iI", 6, 2) + b"[]",
    "binary-cut-short": struct.pack(">iI", 10, 1 << 24 | 6) + b"\0\x69\0\0\0\0",
    "deep": struct.pack(">iI", 4 + 5 * 20_000, 5 * 20_000) + b'{"a":' * 20_000,
}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
async def test_invalid_bytes_close_only_their_connection(veteran: Victim, garbage: bytes) -> None:
    said = len(veteran.process.stderr)
    async with veteran.attacked(), veteran.another() as client:
        assert (await client.call(105, {"topic": "TBW102"})).code == 0
        client.write(garbage)
        await client.closed()
    await veteran.process.logs(f"closing connection from {client.address}")
    assert veteran.process.stderr[said:].count(f"closing connection from {client.address}") == 1


@pytest.mark.asyncio(loop_scope="module")
async def test_a_frame_sent_byte_by_byte_is_served_without_delaying_others(veteran: Victim) -> None:
    async with veteran.attacked(), veteran.another() as slow:
        answers = [slow.expect(opaque) for opaque in range(3)]
        for number, byte in enumerate(b"".join(map(route, range(3)))):
            slow.write(bytes([byte]))
            await slow.drain()
            if number % 50 == 0:
                await veteran.unharmed()
        async with asyncio.timeout(PATIENCE_S):
            assert [answer.code for answer in await asyncio.gather(*answers)] == [0, 0, 0]


@pytest.mark.asyncio(loop_scope="module")
async def test_abandoned_frames_leave_no_memory(veteran: Victim) -> None:
    frame = encode(Command(code=310, body=bytes(MB)))
    async with veteran.attacked():
        for cut in (1, 4, 7, 8, 20, len(frame) // 2, len(frame) - 1):
            async with veteran.another() as client:
                client.write(frame[:cut])
                await client.drain()
                await veteran.unharmed()


@pytest.mark.asyncio(loop_scope="module")
async def test_frames_of_many_connections_may_be_cut_and_interleaved(veteran: Victim) -> None:
    chance = random.Random(5)
    async with veteran.attacked(), AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(veteran.another()) for _ in range(20)]
        answers = [client.expect(opaque) for client in clients for opaque in range(20)]
        waiting = {client: b"".join(map(route, range(20))) for client in clients}
        while waiting:
            client = chance.choice(list(waiting))
            size = chance.randrange(1, 400)
            client.write(waiting[client][:size])
            waiting[client] = waiting[client][size:]
            if not waiting[client]:
                del waiting[client]
            await asyncio.sleep(0)  # lets the request be sent
        async with asyncio.timeout(PATIENCE_S):
            assert {answer.code for answer in await asyncio.gather(*answers)} == {0}


QUEUES = {
    **{"consumerGroup": "g", "clientId": "c"},
    "mqSet": [{"topic": "orders", "brokerName": "broker-a", "queueId": 0}],
}
SUBSCRIPTION = {
    **{"topic": "orders", "subString": "a || b", "tagsSet": ["a", "b"], "codeSet": [97, 98]},
    **{"subVersion": 1, "classFilterMode": False, "expressionType": "TAG"},
}
CONSUMER = {
    **{"groupName": "g", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "unitMode": False},
    **{"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": [SUBSCRIPTION]},
}
HEARTBEAT = {"clientID": "c", "producerDataSet": [{"groupName": "p"}], "consumerDataSet": [CONSUMER]}
TOPIC = {
    "topicName": "orders",
    "readQueueNums": 4,
    "writeQueueNums": 4,
    "perm": 6,
    "attributes": {"+message.type": "NORMAL"},
}
GROUP = {"groupName": "g", "retryMaxTimes": 16, "retryQueueNums": 1, "consumeEnable": True}
ACKS = {"c": "g", "t": "orders", "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 1_000, "b": "AQ=="}
ENTRY = struct.pack(">iiiii", 32, 0, 0, 0, 2) + b"hi" + b"\0\x08TAGS\x01ab\x02"
HOSTED = {"0": [{"gen": 0, "queueId": 0, "bname": "broker-a", "logicOffset": 0}]}
BODIES = {
    RequestCode.HEART_BEAT: json.dumps(HEARTBEAT).encode(),
    RequestCode.LOCK_BATCH_MQ: json.dumps(QUEUES).encode(),
    RequestCode.UNLOCK_BATCH_MQ: json.dumps(QUEUES).encode(),
    RequestCode.SEND_BATCH_MESSAGE: 2 * ENTRY,
    RequestCode.CHECK_CLIENT_CONFIG: json.dumps({"clientId": "c", "subscriptionData": SUBSCRIPTION}).encode(),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: json.dumps({"topicConfigList": [TOPIC]}).encode(),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: json.dumps(GROUP).encode(),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: json.dumps({"groupConfigList": [GROUP]}).encode(),
    RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC: json.dumps(
        {
            "topic": "static",
            "bname": "broker-a",
            "scope": "__global__",
            "totalQueues": 1,
            "hostedQueues": HOSTED,
        }
    ).encode(),
    RequestCode.UPDATE_BROKER_CONFIG: b"autoCreateTopicEnable=true\n",
    RequestCode.UPDATE_NAMESRV_CONFIG: b"orderMessageEnable=false\n",
    RequestCode.BATCH_ACK_MESSAGE: json.dumps({"brokerName": "broker-a", "acks": [ACKS]}).encode(),
    RequestCode.QUERY_ASSIGNMENT: json.dumps(
        QUEUES | {"topic": "orders", "strategyName": "AVG", "messageModel": "CLUSTERING"}
    ).encode(),
    RequestCode.SET_MESSAGE_REQUEST_MODE: json.dumps(
        {"topic": "orders", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 1}
    ).encode(),
}
FIELDS = {
    **{"topic": "orders", "b": "orders", "defaultTopic": "TBW102", "c": "TBW102", "sysFlag": "0", "f": "0"},
    **{
        "properties": "TAGS\x01a\x02DELAY\x013\x02",
        "i": "TAGS\x01a\x02KEYS\x01k\x02",
        "queueId": "0",
        "e": "0",
    },
    **{"batch": "false", "m": "false", "subscription": "a || b", "expressionType": "TAG", "j": "0"},
    **{"reconsumeTimes": "0", "queueOffset": "0"},
    **{"commitOrRollback": "0", "recallHandle": "djEgb3JkZXJzIGJyb2tlci1hIDkgaw=="},
    **{"extraInfo": "1 1 1 0 0 broker-a 0 1", "bornTime": "0", "expType": "TAG", "invisibleTime": "60000"},
    **{"topicFilterType": "SINGLE_TAG", "attributes": "+message.type=NORMAL"},
    **{"statsName": "BROKER_PUT_NUMS", "statsKey": "DefaultCluster", "E_T": "F"},
}


def requests() -> list[bytes]:
    """Return a valid request for each code, in both header formats."""
    values = {str: "group", int: "1", bool: "true"}
    found: list[bytes] = []
    for code, request in REQUESTS.items():
        names = list(READERS[code].fields)
        kinds = get_type_hints(request.header, include_extras=True).values()
        ext = {
            name: FIELDS.get(name) or values.get(kind, "1") for name, kind in zip(names, kinds, strict=True)
        }
        if code == RequestCode.SEND_BATCH_MESSAGE:
            ext["m"] = "true"
        body = BODIES.get(RequestCode(code), b"hello")
        forms = (JSON, ROCKETMQ) if code < 1 << 15 else (JSON,)  # a binary header has 16 bits for the code
        found += (encode(Command(code=code, ext=ext, body=body, serialization=form)) for form in forms)
    return found


@pytest.mark.asyncio(loop_scope="module")
async def test_corpus_seeds_are_valid(veteran: Victim) -> None:
    async with veteran.attacked(), veteran.another() as client:
        assert (await client.call(310, SEND, b"x")).code == 0
        for frame in requests():
            (command,) = FrameReader().feed(frame)
            answer = await client.call(command.code, command.ext, command.body)
            assert answer.code in RIGHT.get(command.code, (0,)), answer


RIGHT = {
    **{12: (22,), 33: (0, 1), 36: (0, 1), 38: (0, 1), 11: (0, 20), 361: (0, 20)},
    **{370: (604,), 324: (1,), 325: (1,), 203: (206,), 204: (1,), 351: (0, 17), 352: (26,)},
    **{223: (1,), 307: (1,), 309: (1,), 314: (26,)},
    **{513: (1,)},  # its body is of another topic, so that the corpus has no static topic
    **{200_050: (0, 210), 200_051: (208,), 200_052: (0, 19), 200_053: (208,), 200_151: (208,)},
    **{200_075: (17,), 200_076: (17,), 200_077: (17,), 200_078: (26,), 200_079: (26,)},
    **dict.fromkeys(range(3001, 3011), (1, 16)),  # the broker has no users
}
"""Other codes that may answer a request of the corpus."""


def mutated(frame: bytes, chance: random.Random) -> bytes:
    """Return the frame with damaged content or a wrong length."""
    data = bytearray(frame)
    match chance.randrange(6):
        case 0:
            for _ in range(chance.randrange(1, 8)):
                data[chance.randrange(8, len(data))] = chance.randrange(256)
        case 1:
            data = data[: chance.randrange(9, len(data))]
        case 2:
            at = chance.randrange(8, len(data))
            data[at:at] = chance.randbytes(chance.randrange(1, 100))
        case 3:
            data[chance.randrange(8)] ^= 1 << chance.randrange(8)
            return bytes(data)
        case 4:
            number = chance.choice((-1, 0, 2**31, -(2**63), 2**64, 10**30))
            data = data.replace(b'"1"', f'"{number}"'.encode(), chance.randrange(1, 5))
        case 5:
            data = data.replace(b"orders", chance.choice((b"\\ud800", b"%RETRY%", b"\xc3\xa4pf", b"TBW102")))
    data[:4] = struct.pack(">i", len(data) - 4)
    if chance.random() < 0.9:  # keeps the distance of the header's end from the frame's end
        body = len(frame) - 8 - int.from_bytes(frame[5:8], "big")
        data[5:8] = max(len(data) - 8 - body, 0).to_bytes(3, "big")
    return bytes(data)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("seed", range(3))
async def test_mutated_frames_are_refused_or_answered(veteran: Victim, seed: int) -> None:
    chance = random.Random(seed)
    corpus = requests()
    async with veteran.attacked():
        for _ in range(1_000):
            reader, writer = await asyncio.open_connection(*veteran.process.name_server)
            for frame in chance.sample(corpus, chance.randrange(2)):
                writer.write(frame)
            writer.write(mutated(chance.choice(corpus), chance))
            if chance.random() < 0.1:
                writer.write_eof()
                with suppress(ConnectionError):
                    await reader.read()
            writer.transport.abort()


async def test_two_thousand_connections_at_once(victim: Victim) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3_000), hard))
    try:
        async with victim.attacked(60), AsyncExitStack() as stack:
            clients: list[RemotingClient] = []
            for _ in range(20):  # at most as many at once as the backlog holds
                opening = (victim.another() for _ in range(100))
                clients += await asyncio.gather(*map(stack.enter_async_context, opening))
            async with asyncio.timeout(HANGING_S):
                answers = await asyncio.gather(*(client.ask(105, {"topic": "TBW102"}) for client in clients))
            assert {answer.code for answer in answers} == {0}
            await victim.unharmed()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_unfinished_large_frames_take_bounded_memory(victim: Victim) -> None:
    """200 connections send 200 MB of frames whose announced sizes add up to 3 GB."""
    frame = encode(Command(code=310, body=bytes(15 * MB)))
    before = victim.memory()
    async with victim.attacked(100):
        senders = []
        for _ in range(200):
            sender = socket.create_connection(victim.process.name_server)
            sender.setblocking(False)
            senders.append(sender)
        for sender in senders:
            sent = 0
            while sent < MB:
                try:
                    sent += sender.send(frame[sent:MB])
                except BlockingIOError:  # the broker has stopped reading, and every buffer on the way is full
                    break
            await victim.unharmed()
        assert victim.memory() - before < 200 * MB
        async with victim.another() as client:
            assert (await client.call(310, SEND, bytes(64 << 10))).code == 0
        for sender in senders:
            sender.close()


async def test_unread_responses_take_bounded_memory(victim: Victim) -> None:
    before = victim.memory()
    async with victim.attacked(100):
        async with victim.another() as client:
            for _ in range(32):
                assert (await client.call(310, SEND, bytes(256 << 10))).code == 0
        async with victim.another() as client:
            client.pause_reading()
            asked = [client.ask(11, PULL) for _ in range(1_000)]
            await client.drain()
            await victim.unharmed()
            async with victim.another() as other:
                assert (await other.call(11, PULL)).code == 0
            assert victim.memory() - before < 60 * MB
            client.resume_reading()
            assert (await asked[0]).code == 0


async def test_flood_of_abandoned_requests_is_survived(victim: Victim) -> None:
    async with victim.attacked(100), victim.another() as client:
        for _ in range(20):
            for _ in range(500):
                client.oneway(310, SEND, bytes(1_000))
            await client.drain()
            await victim.unharmed()
        await victim.metric("mocketmq_sent_messages_total", 10_000)


async def test_disconnected_client_leaves_no_pull(victim: Victim) -> None:
    async with victim.attacked():
        async with victim.another() as client:
            assert (await client.call(310, SEND, b"x")).code == 0
            for _ in range(5_000):
                client.ask(11, PULL | {"queueOffset": "1"})
            refused = await client.call(11, PULL | {"queueOffset": "1"})
            assert refused.code == 2
            await victim.unharmed()
        await victim.metric("mocketmq_long_polls", 0)


def route(opaque: int) -> bytes:
    return encode(Command(code=105, opaque=opaque, ext={"topic": "TBW102"}))
