"""Pulling by 11 and 361: permissions, results, long polls, and costs."""

import asyncio
from typing import Any

import pytest

from mocketmq.clock import US_PER_MS
from mocketmq.errors import StoreUnavailableError
from mocketmq.message.message import Message
from mocketmq.message.properties import encode_properties
from mocketmq.settings import TopicDeclaration
from tests.doors.remoting.consuming import (
    COMMIT,
    HEART_BEAT,
    LITE_PULL,
    RETRY,
    SUBSCRIPTION,
    SUSPEND,
    beat,
    bodies,
    commit,
    committed,
    consumer,
    join,
    pull,
    pull_of,
    subscription,
)
from tests.doors.remoting.producing import UNIQUE
from tests.support.brokers import GROUP, TOPIC, S, index_keys, rows, send
from tests.support.patience import PATIENCE_S
from tests.support.remoting import Remoting, running_remoting
from tests.support.waiting import Waiting

EXT = ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset")


async def fill(remoting: Remoting, *tags: str | None) -> None:
    """Send one message per tag to queue 0; each body is the message's offset."""
    for n, tag in enumerate(tags):
        await send(remoting.broker, str(n), queue=0, tag=tag)


# Results


@pytest.mark.parametrize(
    ("offset", "code", "status", "next_offset"),
    [
        (-1, 21, "OFFSET_TOO_SMALL", 2),
        (0, 20, "NO_MATCHED_MESSAGE", 2),  # from before the reset
        (1, 20, "NO_MATCHED_MESSAGE", 2),
        (2, 0, "FOUND", 4),
        (3, 0, "FOUND", 4),
        (4, 19, "OFFSET_OVERFLOW_ONE", 4),
        (5, 21, "OFFSET_OVERFLOW_BADLY", 4),
    ],
)
async def test_response_depends_on_the_offset(offset: int, code: int, status: str, next_offset: int) -> None:
    async with running_remoting() as remoting:
        await fill(remoting, None, None)
        await remoting.broker.reset.topic(TOPIC)
        await fill(remoting, None, None)
        answer = await pull(remoting.client, offset)
        assert (answer.code, answer.remark) == (code, status)
        assert answer.ext == dict(zip(EXT, ("0", str(next_offset), "2", "4"), strict=True))
        assert bool(answer.body) == (code == 0)


async def test_client_offset_beyond_a_new_store_restarts_at_its_first() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, None, None)
        answer = await pull(remoting.client, 500, SUBSCRIPTION | SUSPEND, suspendTimeoutMillis=20_000)
        assert (answer.code, answer.remark) == (21, "OFFSET_OVERFLOW_BADLY")
        assert (answer.ext["nextBeginOffset"], answer.ext["maxOffset"]) == ("0", "2")
        await commit(remoting.client, 1)
        answer = await pull(remoting.client, 500)
        assert (answer.code, answer.ext["nextBeginOffset"]) == (21, "1")


@pytest.mark.parametrize(("offset", "code"), [(0, 19), (1, 21), (-1, 21)])
async def test_a_pull_beyond_an_empty_queue_is_moved_to_offset_0(offset: int, code: int) -> None:
    async with running_remoting() as remoting:
        await send(remoting.broker, queue=1)
        millis = 20_000 if offset else 0
        answer = await pull(remoting.client, offset, SUBSCRIPTION | SUSPEND, suspendTimeoutMillis=millis)
        assert (answer.code, answer.remark) == (code, "NO_MESSAGE_IN_QUEUE")
        assert answer.ext == dict(zip(EXT, ("0", "0", "0", "0"), strict=True))


async def test_filtered_messages_are_skipped_at_once() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "A", "B", None, "A", "C")
        flags = SUBSCRIPTION | SUSPEND
        some = await pull(remoting.client, 0, flags, subscription="A || C", suspendTimeoutMillis=9_000)
        assert (bodies(some), some.ext["nextBeginOffset"]) == (["0", "3", "4"], "5")
        none = await pull(remoting.client, 0, flags, subscription="D", suspendTimeoutMillis=9_000)
        assert (none.code, none.remark, none.ext["nextBeginOffset"]) == (20, "NO_MATCHED_MESSAGE", "5")
        assert none.body == b""


async def test_lite_pulls_are_pulls() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, None)
        assert bodies(await remoting.client.ok(LITE_PULL, pull_of(flags=SUBSCRIPTION | 16))) == ["0"]


@pytest.mark.parametrize(
    ("settings", "wanted", "found"),
    [({}, 2, 2), ({}, 0, 1), ({}, -5, 1), ({}, 5_000, 32), ({"max_pull_messages": 100}, 5_000, 100)],
)
async def test_pull_returns_the_requested_number_up_to_a_limit(
    settings: dict[str, int], wanted: int, found: int
) -> None:
    async with running_remoting(**settings) as remoting:
        await remoting.broker.sender.send_batch([Message(TOPIC, b"x", {}, 0) for _ in range(101)])
        answer = await pull(remoting.client, maxMsgNums=wanted)
        assert (len(bodies(answer)), answer.ext["nextBeginOffset"]) == (found, str(found))


@pytest.mark.parametrize(
    ("settings", "most", "found"),
    [
        ({}, None, 2),
        ({}, 1 << 30, 2),
        ({}, 2 * 100_000, 2),
        ({}, 2 * 100_000 - 1, 1),
        ({}, -1, 1),
        ({"max_pull_bytes": 3 * 100_000 - 1}, None, 2),
        ({"max_pull_bytes": 3 * 100_000}, 0, 3),
    ],
)
async def test_answer_is_limited_in_bytes(settings: dict[str, int], most: int | None, found: int) -> None:
    async with running_remoting(**settings) as remoting:
        for _ in range(4):  # records of 100,000 bytes each
            properties = {"a": "\u00fc" * 20, "UNIQ_KEY": UNIQUE}
            size = (
                100_000 - 91 - len(TOPIC) - len(encode_properties(properties).removesuffix("\x02").encode())
            )
            await remoting.broker.sender.send(Message(TOPIC, bytes(size), properties, 0))
        answer = await pull(remoting.client, maxMsgBytes=most)
        assert len(answer.body) == found * 100_000
        assert (len(bodies(answer)), answer.ext["nextBeginOffset"]) == (found, str(found))


async def test_message_above_the_answer_limit_is_returned_alone() -> None:
    async with running_remoting(max_message_bytes=8 << 20) as remoting:
        for size in (5 << 20, 1, 5 << 20):
            await send(remoting.broker, "x" * size, queue=0, tag="A")
        sizes = []
        for offset in range(3):
            answer = await pull(remoting.client, offset, subscription="A")
            sizes.append([len(body) for body in bodies(answer)])
            assert answer.ext["nextBeginOffset"] == str(offset + 1)
        assert sizes == [[5 << 20], [1], [5 << 20]]


async def test_a_scan_of_filtered_messages_is_bounded() -> None:
    async with running_remoting() as remoting:
        for _ in range(11):
            await remoting.broker.sender.send_batch(
                [Message(TOPIC, b"x", {"TAGS": "B"}, 0) for _ in range(1_000)]
            )
        answer = await pull(remoting.client, subscription="A")
        assert (answer.code, answer.ext["nextBeginOffset"]) == (20, "10000")


# Permissions


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"consumerGroup": "nobody"}, 26, "subscription group not exist, nobody"),
        ({"consumerGroup": "CID_RMQ_SYS_HALF"}, 16, "group[CID_RMQ_SYS_HALF] belongs to the broker"),
        ({"topic": "nowhere"}, 17, "topic[nowhere] not exist, apply first please!"),
        ({"topic": "silent"}, 16, "the topic[silent] pulling message is forbidden"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, 16, "the topic[SCHEDULE_TOPIC_XXXX] pulling message is forbidden"),
        ({"topic": "%HALF%orders"}, 16, "the topic[%HALF%orders] pulling message is forbidden"),
        ({"queueId": 4}, 29, "request queueId[4] is illegal, orders has 0 to 3"),
        ({"queueId": -1}, 29, "request queueId[-1] is illegal, orders has 0 to 3"),
        ({"subscription": "||"}, 23, "parse the consumer's subscription failed"),
        (
            {"subscription": "a > 1", "expressionType": "REGEX"},
            1,
            "The broker does not support consumer to filter message by REGEX",
        ),
        ({"queueOffset": None}, 1, "the custom field <queueOffset> is null"),
        # The first of several reasons, in upstream's order.
        ({"consumerGroup": "nobody", "topic": "nowhere"}, 26, "subscription group not exist, nobody"),
        ({"topic": "silent", "queueId": 9}, 16, "the topic[silent] pulling message is forbidden"),
        ({"queueId": 4, "subscription": "||"}, 29, "request queueId[4] is illegal, orders has 0 to 3"),
    ],
)
async def test_invalid_pull_is_refused(fields: dict[str, Any], code: int, remark: str) -> None:
    silent = TopicDeclaration(name="silent", perm="w")
    async with running_remoting(auto_create_groups=False, topics=(silent,)) as remoting:
        await send(remoting.broker)
        await remoting.broker.registry.groups.put(GROUP, 16, 1)
        answer = await pull(remoting.client, **fields)
        assert answer.code == code
        assert str(answer.remark).startswith(remark)
        assert (answer.body, answer.ext) == (b"", {})
        assert remoting.broker.registry.topics.find_topic("nowhere") is None


async def test_queues_beyond_the_read_queues_are_not_read() -> None:
    async with running_remoting(topics=(TopicDeclaration(name="few", read_queues=2),)) as remoting:
        answer = await pull(remoting.client, topic="few", queueId=2)
        assert (answer.code, answer.remark) == (29, "request queueId[2] is illegal, few has 0 to 1")
        assert (await pull(remoting.client, topic="few", queueId=1)).code == 19


async def test_first_pull_creates_the_group() -> None:
    async with running_remoting() as remoting:
        await send(remoting.broker, queue=0)
        assert (await pull(remoting.client)).code == 0
        assert remoting.broker.consuming_groups.get(GROUP).queues == {}
        # The group has not consumed messages that it has not read.
        assert remoting.broker.committed_offsets.of(GROUP, TOPIC, 0) is None


# Subscriptions


async def test_pull_without_a_subscription_uses_the_last_heartbeat() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        await fill(remoting, "A", "B", "AaC")
        await client.ok(HEART_BEAT, body=beat(consumer(subscription(expression="A"))))
        assert bodies(await pull(client, flags=0)) == ["0"]
        assert bodies(await pull(client, flags=SUBSCRIPTION)) == ["0", "1", "2"]
        await client.ok(HEART_BEAT, body=beat(consumer(subscription(expression=" B||AaC ", version=2))))
        assert bodies(await pull(client, flags=0)) == ["1", "2"]
        # An older version arrives late and is ignored, because other clients have a newer version.
        await client.ok(HEART_BEAT, body=beat(consumer(subscription(expression="A"))))
        assert bodies(await pull(client, flags=0)) == ["1", "2"]
        assert bodies(await pull(client, flags=0, subVersion=2)) == ["1", "2"]
        # A client with a newer version gets all messages, because its heartbeat is still on the way.
        assert bodies(await pull(client, flags=0, subVersion=3)) == ["0", "1", "2"]


async def test_a_topic_without_a_subscription_of_the_group_is_refused() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, None)
        await remoting.client.ok(HEART_BEAT, body=beat(consumer(subscription("other"))))
        answer = await pull(remoting.client, flags=0)
        assert (answer.code, answer.remark) == (
            24,
            f"the consumer's subscription not exist, group: {GROUP}, topic: {TOPIC}",
        )


async def test_pull_before_the_first_heartbeat_is_unfiltered() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "A", None)
        assert bodies(await pull(remoting.client, flags=0, subVersion=1_700_000_000_000)) == ["0", "1"]


async def test_retries_are_never_filtered() -> None:
    async with running_remoting() as remoting:
        await remoting.client.ok(HEART_BEAT, body=beat(consumer(subscription(expression="A"))))
        await send(remoting.broker, "again", topic=RETRY, tag="B")
        assert bodies(await pull(remoting.client, flags=0, topic=RETRY, subVersion=9)) == ["again"]


async def test_unknown_filter_type_is_refused_at_the_pull() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, None)
        body = beat(consumer(subscription(expression="a > 1", expressionType="REGEX")))
        await remoting.client.ok(HEART_BEAT, body=body)
        answer = await pull(remoting.client, flags=0)
        assert (answer.code, answer.remark) == (
            1,
            "The broker does not support consumer to filter message by REGEX",
        )


# Long polls

WAITING = {"flags": SUBSCRIPTION | SUSPEND, "suspendTimeoutMillis": 60_000}


async def test_a_pull_waits_for_a_send_to_its_queue() -> None:
    async with running_remoting() as remoting:
        waiting = Waiting(remoting.broker.polls)
        await fill(remoting, None)
        answer = remoting.client.ask(11, pull_of(1, **WAITING))
        await waiting.begun()
        await send(remoting.broker, "elsewhere", queue=1)
        assert not answer.done()
        await send(remoting.broker, "here", queue=0)
        assert bodies(await answer) == ["here"]
        assert remoting.broker.polls.count == 0


async def test_pull_of_an_empty_queue_waits() -> None:
    async with running_remoting() as remoting:
        waiting = Waiting(remoting.broker.polls)
        await send(remoting.broker, queue=1)
        answer = remoting.client.ask(11, pull_of(**WAITING))
        await waiting.begun()
        await send(remoting.broker, "first", queue=0)
        assert bodies(await answer) == ["first"]


async def test_a_filtered_message_wakes_no_pull() -> None:
    async with running_remoting() as remoting:
        waiting = Waiting(remoting.broker.polls)
        await fill(remoting, "A")
        answer = remoting.client.ask(11, pull_of(1, subscription="A", **WAITING))
        await waiting.begun()
        await fill(remoting, "B", "C")
        for _ in range(20):
            await remoting.client.call(30, {"topic": TOPIC, "queueId": "0"})
        assert not answer.done()
        await send(remoting.broker, "wanted", queue=0, tag="A")
        found = await answer
        assert (bodies(found), found.ext["nextBeginOffset"]) == (["wanted"], "4")


async def test_a_wait_ends_in_time_and_returns_the_skipped_messages() -> None:
    async with running_remoting() as remoting:
        waiting = Waiting(remoting.broker.polls)
        await fill(remoting, "A")
        flags = SUBSCRIPTION | SUSPEND
        answer = await pull(remoting.client, 1, flags, suspendTimeoutMillis=1)
        assert (answer.code, answer.remark, answer.ext["nextBeginOffset"]) == (19, "OFFSET_OVERFLOW_ONE", "1")
        offset = 1
        for wait_ms in (300, 3_000, 30_000):
            wanted = pull_of(offset, flags, subscription="A", suspendTimeoutMillis=wait_ms)
            late = remoting.client.ask(11, wanted)
            await waiting.begun()
            await fill(remoting, "B", "C")
            answer = await late
            offset += 2
            if answer.code != 19:  # otherwise the poll ended before the messages were stored
                break
        assert (answer.code, answer.remark) == (20, "NO_MATCHED_MESSAGE")
        assert answer.ext["nextBeginOffset"] == str(offset)


@pytest.mark.parametrize(("flags", "millis"), [(SUBSCRIPTION, 20_000), (SUBSCRIPTION | SUSPEND, -1)])
async def test_a_pull_without_suspension_answers_at_once(flags: int, millis: int) -> None:
    async with running_remoting() as remoting:
        await fill(remoting, None)
        assert (await pull(remoting.client, 1, flags, suspendTimeoutMillis=millis)).code == 19


async def test_a_pull_waits_no_longer_than_the_setting_allows() -> None:
    async with running_remoting(max_long_poll_us=100 * US_PER_MS) as remoting, asyncio.timeout(PATIENCE_S):
        await fill(remoting, "A")
        answer = await pull(remoting.client, 1, **WAITING)
        assert (answer.code, answer.remark, answer.ext["nextBeginOffset"]) == (19, "OFFSET_OVERFLOW_ONE", "1")


async def test_a_delayed_message_wakes_a_pull_when_it_is_due() -> None:
    async with running_remoting() as remoting:
        waiting = Waiting(remoting.broker.polls)
        await fill(remoting, None)
        answer = remoting.client.ask(11, pull_of(1, **WAITING))
        await send(remoting.broker, "delayed", queue=0, level=3)
        await waiting.begun()
        assert not answer.done()
        await remoting.broker.mover.advance(10 * S)
        assert bodies(await answer) == ["delayed"]


async def test_a_waiting_pull_is_answered_when_the_broker_is_reset() -> None:
    async with running_remoting() as remoting:
        waiting = Waiting(remoting.broker.polls)
        await fill(remoting, None)
        answer = remoting.client.ask(11, pull_of(1, **WAITING))
        await waiting.begun()
        await send(remoting.broker, "forgotten", queue=1)
        await remoting.broker.reset.all()
        assert (await answer).code == 19
        await send(remoting.broker, "new", queue=0)
        assert bodies(await pull(remoting.client, int((await answer).ext["nextBeginOffset"]))) == ["new"]


async def test_a_pull_ends_when_its_client_disconnects() -> None:
    async with running_remoting() as remoting:
        waiting = Waiting(remoting.broker.polls)
        await fill(remoting, None)
        async with remoting.another() as client:
            client.ask(11, pull_of(1, **WAITING))
            await waiting.begun()
        await waiting.ended()


async def test_a_stopping_broker_ends_all_waits() -> None:
    async with running_remoting() as remoting:
        waiting = Waiting(remoting.broker.polls)
        await fill(remoting, None)
        answer = remoting.client.ask(11, pull_of(1, **WAITING))
        await waiting.begun()
        remoting.broker.polls.close()
        async with asyncio.timeout(PATIENCE_S):
            assert (await answer).code == 19


# Costs


async def test_a_pull_writes_nothing_unless_a_message_was_delayed() -> None:
    async with running_remoting() as remoting:
        client, writer = remoting.client, remoting.broker.store.writer
        await fill(remoting, None, None, None)
        await join(client)
        await index_keys(remoting.broker)
        before = writer.commits
        for offset in range(3):
            await pull(client, offset, COMMIT, commitOffset=offset, subVersion=1)
        assert writer.commits == before
        assert await committed(client) == 2
        await commit(client, 2)
        assert writer.commits == before + 1
        await commit(client, 2)
        assert writer.commits == before + 1


async def test_a_pull_commits_its_offset_once_and_only_with_the_flag() -> None:
    async with running_remoting() as remoting:
        waiting = Waiting(remoting.broker.polls)
        client = remoting.client
        await fill(remoting, None, None, None)
        await pull(client, 3, SUBSCRIPTION, commitOffset=3)
        assert await committed(client) == 0
        answer = client.ask(
            11, pull_of(3, SUBSCRIPTION | SUSPEND | COMMIT, commitOffset=2, suspendTimeoutMillis=60_000)
        )
        await waiting.begun()
        assert await committed(client) == 2
        await commit(client, 3)
        await send(remoting.broker, queue=0)
        await answer
        assert await committed(client) == 3


async def test_offset_committed_by_a_pull_is_stored_at_the_stop(tmp_path: Any) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        await fill(remoting, None, None)
        await pull(remoting.client, 1, SUBSCRIPTION | COMMIT, commitOffset=1)
    assert [row["next_offset"] for row in rows(tmp_path, "SELECT * FROM progress")] == [1]


async def test_the_ledger_records_the_group_that_pulled_and_committed(tmp_path: Any) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        client = remoting.client
        for n in range(3):
            await send(remoting.broker, str(n), queue=0, level=1)
        await remoting.broker.mover.advance(1 * S)
        assert bodies(await pull(client, maxMsgNums=2)) == ["0", "1"]
        await remoting.broker.mover.advance(1 * S)
        await pull(client, 1, SUBSCRIPTION | COMMIT, commitOffset=1, maxMsgNums=1)
        await remoting.broker.mover.advance(1 * S)
        await commit(client, 1)
    delivered = rows(tmp_path, "SELECT * FROM deliveries ORDER BY queue_offset")
    times = [
        [row[name] and row[name] - row["delivered_us"] for name in ("pulled_us", "acked_us")]
        for row in delivered
    ]
    assert times == [[0, 1 * S], [0, None], [None, None]]
    assert [row["pulled_by"] for row in delivered] == [GROUP, GROUP, None]


@pytest.mark.interpreted
async def test_stored_messages_can_be_pulled_while_the_store_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_remoting() as remoting:
        await send(remoting.broker, "late", queue=0, level=1)
        await remoting.broker.mover.advance(1 * S)

        def put(*_: object, **_options: object) -> None:
            raise StoreUnavailableError("the disk is full")

        await pull(remoting.client, 1)
        with monkeypatch.context() as patched:
            patched.setattr(remoting.broker.store.writer, "put", put)
            assert bodies(await pull(remoting.client)) == ["late"]
        assert "cannot record pull times in the ledger: the disk is full (deliveries: 1)" in caplog.text


async def test_ledger_notes_pulls_of_the_newest_delayed_messages(tmp_path: Any) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        remoting.broker.pull.most_noted = 2
        for n in range(4):
            await send(remoting.broker, str(n), queue=0, level=1)
        await remoting.broker.mover.advance(1 * S)
        await pull(remoting.client, maxMsgNums=1)
        await pull(remoting.client, 1)
        await commit(remoting.client, 4)
    delivered = rows(tmp_path, "SELECT * FROM deliveries ORDER BY queue_offset")
    assert [row["acked_us"] is not None for row in delivered] == [False, False, True, True]
