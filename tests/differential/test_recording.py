"""Real RocketMQs recorded under load, and replayed: nothing changes there, and all comes back in order."""

import asyncio
import itertools
import json
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from mocketmq import Client
from mocketmq.calling.headers import group_body, send_ext, topic_ext
from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.message.message_id import new_unique_key
from mocketmq.message.properties import DELAY, KEYS, TAGS, TIMER_DELAY_MS, UNIQ_KEY
from mocketmq.remoting.wire import fastjson
from mocketmq.remoting.wire.codes import RequestCode
from tests.support.patience import HANGING_S
from tests.support.process import forked_broker
from tests.support.recordings import lines, recorded, replayed
from tests.support.remoting import RemotingClient, connected
from tests.upstream.jars import V4
from tests.upstream.process import HOST, Upstream

pytestmark = pytest.mark.differential

QUEUES = 4
MANY = 100
STATE = (
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.GET_ALL_TOPIC_CONFIG,
)


async def state(client: RemotingClient) -> list[Any]:
    """Return what the broker keeps of consumers, groups and topics."""
    return [fastjson.loads((await client.ok(code)).body) for code in STATE]


async def send(client: RemotingClient, number: int, version: str) -> str:
    """Send a message, every fifth delayed by a level and, to RocketMQ 5, every seventh by a timer."""
    now_us = wall_us()
    key = new_unique_key(now_us)
    properties = {UNIQ_KEY: key, KEYS: f"order-{number}", TAGS: "A", "region": "eu"}
    if number % 5 == 0:
        properties[DELAY] = "2"
    elif number % 7 == 0 and version != V4:
        properties[TIMER_DELAY_MS] = "3000"
    ext = send_ext("orders", "makers", number % QUEUES, now_us, properties)
    body = json.dumps({"number": number, "phone": f"138{number:08}"}).encode()
    await client.ok(RequestCode.SEND_MESSAGE, ext, body)
    return key


async def load(client: RemotingClient, version: str, keys: list[str], stop: asyncio.Event) -> None:
    for number in itertools.count():
        keys.append(await send(client, number, version))
        if stop.is_set():
            return
        await asyncio.sleep(0.005)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_real_rocketmq_is_recorded_and_replayed(plain: Upstream, tmp_path: Path) -> None:
    path, name_server = tmp_path / "orders.jsonl", f"{HOST}:{plain.namesrv_port}"
    keys: list[str] = []
    async with connected(HOST, plain.broker_port) as client, connected(HOST, plain.broker_port) as other:
        await client.ok(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_ext("orders", QUEUES))
        await client.ok(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group_body("billing"))
        await routed(plain.namesrv_port)
        stop = asyncio.Event()
        commit = {"consumerGroup": "billing", "topic": "orders", "queueId": "1", "commitOffset": "3"}
        await client.ok(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(load(other, plain.version, keys, stop))
            async with asyncio.timeout(HANGING_S):
                while len(keys) < MANY:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            before = await state(client)
            summary = await recorded(name_server, path, "--until", "+4s", "--rate", "2000/s")
            assert await state(client) == before
            stop.set()
    found = lines(path)
    assert summary["messages"] == len(found) == len({each["message_id"] for each in found})
    assert {each["message_id"] for each in found} == set(keys[: len(found)])
    assert len(found) > MANY
    assert not summary["notes"]
    for number, key in enumerate(keys[: len(found)]):
        [each] = [one for one in found if one["message_id"] == key]
        assert each["queue_id"] == number % QUEUES
        assert (each["keys"], each["tag"], each["properties"]) == ([f"order-{number}"], "A", {"region": "eu"})
        assert json.loads(each["body"])["number"] == number
        assert each.get("delay_level", 0) == (2 if number % 5 == 0 else 0)
        timed = number % 5 and number % 7 == 0 and plain.version != V4
        assert each.get("delay_ms", 0) == (3_000 if timed else 0)
    async with forked_broker("--clock", "manual") as broker, Client(broker.url) as here:
        done = await replayed(broker.url, path)
        assert (done["sent"], done["refused"], done["pending"]) == (len(found), 0, 0)
        await check(here, found, done["began_ms"])


async def routed(namesrv_port: int) -> None:
    async with asyncio.timeout(HANGING_S), connected(HOST, namesrv_port) as client:
        while (await client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})).code:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def check(here: Client, found: list[dict[str, Any]], began_ms: int) -> None:
    """Compare what the replay sent with the recording: messages, order in each queue, spacing."""
    stored: dict[str, int] = {}
    order: defaultdict[int, list[str]] = defaultdict(list)
    for queue_id in range(QUEUES):
        offset = 0
        while True:
            page = await here.browse("orders", queue_id, offset=offset)
            if not page["messages"]:
                break
            for each in page["messages"]:
                stored[each["message_id"]] = each["store_ms"]
                order[queue_id].append(each["message_id"])
            offset = page["next_offset"]
    assert stored.keys() == {each["message_id"] for each in found}
    plain = [each for each in found if not delay_ms(each)]
    for queue_id in range(QUEUES):
        sent = [each["message_id"] for each in plain if each["queue_id"] == queue_id]
        kept = {each["message_id"] for each in plain}
        assert [key for key in order[queue_id] if key in kept] == sent
    sent_ms = [instant(each["sent_at"]) for each in found]
    span_ms = sent_ms[-1] - sent_ms[0]
    for each, at_ms in zip(found, sent_ms, strict=True):
        due_ms = began_ms + at_ms - sent_ms[0] + delay_ms(each)
        assert abs(stored[each["message_id"]] - due_ms) <= span_ms // 100


def delay_ms(message: dict[str, Any]) -> int:
    """The delay; that of level 2 is five seconds."""
    delay: int = 5_000 if message.get("delay_level") else message.get("delay_ms", 0)
    return delay


def instant(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * US_PER_MS)
