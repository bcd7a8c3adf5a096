"""Answers that differ between RocketMQ 4 and 5: a broker follows the version of ``--server-version``."""

import json

import pytest

from mocketmq.clock import US_PER_S
from mocketmq.rocketmq_versions import V4_9_8, version_number
from tests.doors.remoting.consuming import LOCK, PULL, RESET_OFFSET, commit, pull_of
from tests.doors.remoting.producing import V2, header, parted, sent, stepped
from tests.support.brokers import GROUP, TOPIC, visible
from tests.support.remoting import running_remoting

V5_5_0 = version_number("5.5.0")
CREATE_TOPIC, DELETE_TOPIC, TOPIC_STATS = 17, 215, 202
RETRY, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"


@pytest.mark.parametrize(("server_version", "kept"), [(V4_9_8, {}), (V5_5_0, {"WAIT": "true"})])
async def test_only_version_5_keeps_the_property_wait(server_version: int, kept: dict[str, str]) -> None:
    async with running_remoting(server_version=server_version) as remoting:
        await sent(remoting.client, properties={"UNIQ_KEY": "A1", "WAIT": "true"})
        [stored] = await visible(remoting.broker, TOPIC)
        assert parted(stored.properties) == {"UNIQ_KEY": "A1", "CLUSTER": "DefaultCluster", **kept}


@pytest.mark.parametrize(("server_version", "code"), [(V4_9_8, 1), (V5_5_0, 29)])
async def test_only_version_5_has_a_code_for_invalid_topics_and_queues(
    server_version: int, code: int
) -> None:
    async with running_remoting(server_version=server_version) as remoting:
        client = remoting.client
        await sent(client)
        place = {"defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
        config = {**place, "topicFilterType": "SINGLE_TAG"}
        refused = [
            await client.call(V2, header(V2, topic="a b"), b"x"),
            await client.call(V2, header(V2, queue_id=4), b"x"),
            await client.call(PULL, pull_of(0, queueId=4)),
            await client.call(CREATE_TOPIC, {**config, "topic": "a b"}),
            await client.call(CREATE_TOPIC, {**config, "topic": "TBW102"}),
            await client.call(DELETE_TOPIC, {"topic": "TBW102"}),
        ]
        assert [answer.code for answer in refused] == [code] * len(refused)


@pytest.mark.parametrize(
    ("server_version", "times", "is_ordered", "topic"),
    [
        (V4_9_8, 2, False, RETRY),
        (V4_9_8, 2, True, RETRY),
        (V4_9_8, 3, False, DEAD),
        (V5_5_0, 3, False, RETRY),
        (V5_5_0, 3, True, DEAD),
        (V5_5_0, 4, False, DEAD),
    ],
)
async def test_retries_of_clients_end(server_version: int, times: int, is_ordered: bool, topic: str) -> None:
    async with running_remoting(server_version=server_version) as remoting:
        if is_ordered:
            queue = {"brokerName": "broker-a", "topic": TOPIC, "queueId": 0}
            body = json.dumps({"clientId": "one", "consumerGroup": GROUP, "mqSet": [queue]}).encode()
            await remoting.client.ok(LOCK, body=body)
        given = {"topic": RETRY, "reconsume_times": times, "max_reconsume_times": 3}
        await remoting.client.ok(V2, header(V2, {"DELAY": "1"}, queue_id=0, **given), b"again")
        await remoting.broker.mover.advance(US_PER_S)
        [stored] = await visible(remoting.broker, topic)
        assert stored.body == b"again"


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("server_version", "after_s", "offset"),
    [(V4_9_8, 5, 4), (V4_9_8, None, 4), (V4_9_8, 99, 4), (V5_5_0, 5, 5), (V5_5_0, None, 6), (V5_5_0, 99, 6)],
)
async def test_only_version_4_never_resets_forward_unless_forced(
    server_version: int, after_s: int | None, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_remoting(server_version=server_version) as remoting:
        times = await stepped(remoting)
        monkeypatch.setattr(remoting.broker.clock, "from_wall", lambda instant_us: instant_us)
        await commit(remoting.client, 4)
        timestamp = -1 if after_s is None else times[0] + after_s * 1_000
        ext = {"topic": TOPIC, "group": GROUP, "timestamp": str(timestamp), "isForce": "false"}
        body = (await remoting.client.ok(RESET_OFFSET, ext)).body
        assert b'"queueId":0,"topic":"orders"}:%d' % offset in body


@pytest.mark.parametrize(("server_version", "queues"), [(V4_9_8, 1), (V5_5_0, 3)])
async def test_only_version_5_lists_queues_that_are_just_readable(server_version: int, queues: int) -> None:
    async with running_remoting(server_version=server_version) as remoting:
        config = {"defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG", "topic": TOPIC}
        await remoting.client.ok(CREATE_TOPIC, {**config, "readQueueNums": "3", "writeQueueNums": "1"})
        body = (await remoting.client.ok(TOPIC_STATS, {"topic": TOPIC})).body
        assert body.count(b'"maxOffset":') == queues
