"""The operations of Aliyun's HTTP protocol, over real sockets (docs/protocol/aliyun.md §1)."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.clock import US_PER_MS, US_PER_S, wall_us
from mocketmq.event_loop import EventLoopTurns
from mocketmq.message.message import Message
from mocketmq.settings import GroupDeclaration
from mocketmq_compat.aliyun_http.call import AliyunCall
from mocketmq_compat.aliyun_http.consuming import consume
from tests.support import brokers
from tests.support.aliyun import Aliyun, running_aliyun
from tests.support.gone_request import gone_request
from tests.support.patience import PATIENCE_S

S = US_PER_S
DAY_MS = 86_400_000


@pytest.fixture
async def aliyun() -> AsyncIterator[Aliyun]:
    async with running_aliyun() as aliyun:
        yield aliyun


def now_ms(broker: Broker) -> int:
    return broker.clock.now_us() // US_PER_MS


def in_ms(delay_ms: int) -> str:
    """Return a start-deliver time as a client computes it from its wall clock."""
    return str(wall_us() // US_PER_MS + delay_ms)


# Publish and consume


async def test_published_message_is_consumed_with_all_its_fields(aliyun: Aliyun) -> None:
    now = now_ms(aliyun.broker)
    told = await aliyun.published("hello 你好", "TagA", a="1", KEYS="k1 k2", b="<&>\"'")
    assert list(told) == ["MessageId", "MessageBodyMD5"]
    assert len(told["MessageId"]) == 32
    assert told["MessageBodyMD5"] == "429F2C0B03EBC9911455CBEC2A09BC6F"
    await aliyun.broker.mover.advance(5 * S)
    [message] = await aliyun.consume()
    handle = message.pop("ReceiptHandle")
    assert message == {
        "MessageId": told["MessageId"],
        "MessageBodyMD5": "429F2C0B03EBC9911455CBEC2A09BC6F",
        "MessageBody": "hello 你好",
        "PublishTime": str(now),
        "FirstConsumeTime": str(now + 5_000),
        "NextConsumeTime": str(now + 305_000),
        "ConsumedTimes": "1",
        "MessageTag": "TagA",
        "Properties": "a:1|b:<&>\"'|KEYS:k1 k2|",
    }
    assert await aliyun.consume() == []
    assert (await aliyun.settle([handle])).status == 204
    await aliyun.broker.mover.advance(3_600 * S)
    assert await aliyun.consume() == []


async def test_missing_fields_of_a_message_are_left_out(aliyun: Aliyun) -> None:
    assert (await aliyun.published("a"))["MessageBodyMD5"] == "0CC175B9C0F1B6A831C399E269772661"
    [message] = await aliyun.consume()
    assert not {"MessageTag", "Properties"} & message.keys()
    assert "" not in message.values()


async def test_documents_have_the_namespaces_and_types_that_clients_expect(aliyun: Aliyun) -> None:
    answer = await aliyun.publish()
    assert answer.root.tag == "{http://mq.aliyuncs.com/doc/v1/}Message"
    target = "/topics/orders/messages?consumer=GID_a&numOfMessages=1"
    taken, nothing = await aliyun.call("GET", target), await aliyun.call("GET", target)
    assert taken.root.tag == "{http://mq.aliyuncs.com/doc/v1/}Messages"
    assert b"<Message><MessageId>" in taken.body
    assert nothing.error == (404, "MessageNotExist")
    assert list(nothing.fields) == ["Code", "Message", "RequestId", "HostId"]
    assert nothing.fields["Message"] == "Message not exist."
    assert nothing.fields["HostId"] == aliyun.emulator.url
    for one in (answer, taken, nothing):
        assert one.headers["Content-Type"] == "text/xml;charset=utf-8"
        assert one.headers["x-mq-version"] == "2015-06-06"
        assert len(one.headers["x-mq-request-id"]) == 24
    assert nothing.headers["x-mq-request-id"] == nothing.fields["RequestId"]


async def test_at_most_the_requested_number_is_returned(aliyun: Aliyun) -> None:
    for number in range(20):
        await aliyun.published(str(number))
    assert [len(await aliyun.consume(limit)) for limit in (1, 16, 16)] == [1, 16, 3]


async def test_tags_are_filtered_by_every_request(aliyun: Aliyun) -> None:
    for tag in ("A", "B", "C", ""):
        await aliyun.published(tag or "none", tag)
    assert sorted(await aliyun.bodies(tag="A||C")) == ["A", "C"]
    assert sorted(await aliyun.bodies(group="GID_b", tag="")) == ["A", "B", "C", "none"]


async def test_carriage_returns_and_markup_survive(aliyun: Aliyun) -> None:
    body = "<Message><MessageBody>a&#13;&#10;&lt;&amp;&gt;]]&gt;\"'</MessageBody></Message>"
    assert (await aliyun.call("POST", "/topics/orders/messages", body)).status == 201
    assert await aliyun.bodies() == ["a\r\n<&>]]>\"'"]


async def test_characters_outside_xml_are_replaced_and_the_digest_matches(aliyun: Aliyun) -> None:
    properties = {"bad:name": "1", "bad": "a|b", "odd": "\x07", "good": "1"}
    await aliyun.broker.sender.send(Message("orders", b"a\x00\xff\xe4\xbd\xa0", properties))
    [message] = await aliyun.consume()
    assert message["MessageBody"] == "a��你"
    assert message["MessageBodyMD5"] == "594B2A612F3D98DA91CE49D1DFF013F2"
    assert message["Properties"] == "odd:�|good:1|"


async def test_an_instance_is_a_namespace_of_topics_and_groups(aliyun: Aliyun) -> None:
    await aliyun.published("inside", query="?ns=MQ_INST_1")
    assert await aliyun.consume() == []
    assert await aliyun.bodies(ns="") == []
    [taken] = await brokers.receive(aliyun.broker, topic="MQ_INST_1%orders", group="other")
    assert taken.message.body == b"inside"
    [message] = await aliyun.consume(ns="MQ_INST_1")
    assert aliyun.broker.registry.groups.get("MQ_INST_1%GID_a")
    handle = message["ReceiptHandle"]
    assert await aliyun.failures([handle]) == {handle: "ReceiptHandleError"}
    assert await aliyun.failures([handle], ns="MQ_INST_1") == {}


# Redelivery and handles


async def test_an_unacknowledged_message_is_redelivered_after_300_seconds(aliyun: Aliyun) -> None:
    await aliyun.published()
    [first] = await aliyun.consume()
    await aliyun.broker.mover.advance(300 * S - 1)
    assert await aliyun.consume() == []
    await aliyun.broker.mover.advance(1)
    [second] = await aliyun.consume()
    assert (first["ConsumedTimes"], second["ConsumedTimes"]) == ("1", "2")
    assert second["FirstConsumeTime"] == first["FirstConsumeTime"]
    assert second["NextConsumeTime"] == str(int(first["NextConsumeTime"]) + 300_000)
    old, new = first["ReceiptHandle"], second["ReceiptHandle"]
    assert await aliyun.failures([old]) == {old: "MessageNotExist"}
    assert await aliyun.failures([new]) == {}


async def test_invisible_times_are_settings() -> None:
    async with running_aliyun(aliyun_invisible_us=5 * S, aliyun_ordered_invisible_us=2 * S) as aliyun:
        await aliyun.published()
        now = now_ms(aliyun.broker)
        [message] = await aliyun.consume()
        assert message["NextConsumeTime"] == str(now + 5_000)
        [message] = await aliyun.consume(group="GID_b", trans="order")
        assert message["NextConsumeTime"] == str(now + 2_000)


async def test_a_new_group_delivers_a_message_288_times_and_an_old_one_as_configured() -> None:
    groups = (GroupDeclaration(name="GID_old", max_retries=1),)
    async with running_aliyun(groups=groups) as aliyun:
        await aliyun.consume()
        await aliyun.consume(group="GID_old")
        assert aliyun.broker.registry.groups.get("GID_a").max_retries == 287
        await aliyun.published()
        for times in ("1", "2"):
            [message] = await aliyun.consume(group="GID_old")
            assert message["ConsumedTimes"] == times
            await aliyun.broker.mover.advance(300 * S)
        assert await aliyun.consume(group="GID_old") == []
        assert await aliyun.bodies(topic="%25DLQ%25GID_old") == ["hello"]


async def test_bad_handles_are_listed_and_the_others_are_acknowledged(aliyun: Aliyun) -> None:
    for _ in range(3):
        await aliyun.published()
    good, used, late = [message["ReceiptHandle"] for message in await aliyun.consume()]
    assert await aliyun.failures([used, used]) == {}
    assert await aliyun.failures(["nonsense", good, used, "<&>"]) == {
        "nonsense": "ReceiptHandleError",
        "<&>": "ReceiptHandleError",
        used: "MessageNotExist",
    }
    assert await aliyun.failures([good]) == {good: "MessageNotExist"}
    await aliyun.broker.mover.advance(300 * S)
    assert await aliyun.failures([late]) == {late: "MessageNotExist"}
    assert len(await aliyun.consume()) == 1


async def test_a_handle_is_good_for_its_topic_and_group_only(aliyun: Aliyun) -> None:
    await aliyun.published()
    [message] = await aliyun.consume()
    await aliyun.consume(group="GID_b")
    await aliyun.consume(topic="audit")
    handle = message["ReceiptHandle"]
    for elsewhere in ({"group": "GID_b"}, {"group": "GID_unknown"}, {"topic": "audit"}, {"topic": "unknown"}):
        assert await aliyun.failures([handle], **elsewhere) == {handle: "ReceiptHandleError"}
    assert await aliyun.failures([handle]) == {}
    assert await aliyun.failures([handle], topic="audit") == {handle: "ReceiptHandleError"}


@pytest.mark.parametrize(
    "body", ["", "<ReceiptHandles/>", "<ReceiptHandles><ReceiptHandle/></ReceiptHandles>"]
)
async def test_acknowledging_needs_a_handle(aliyun: Aliyun, body: str) -> None:
    answer = await aliyun.call("DELETE", "/topics/orders/messages?consumer=GID_a", body)
    assert answer.error == (400, "MissingReceiptHandle")
    assert answer.fields["Message"] == "ReceiptHandle is required."


async def test_receive_by_a_disconnected_client_is_undone(aliyun: Aliyun) -> None:
    await aliyun.published()
    gone = gone_request()
    parameters = {"consumer": "GID_a", "numOfMessages": "1"}
    settings = aliyun.emulator.settings
    await consume(AliyunCall(aliyun.broker, settings, gone, "orders", parameters, b"", EventLoopTurns()))
    [message] = await aliyun.consume()
    assert message["ConsumedTimes"] == "1"


# Delays


async def test_a_delayed_message_is_delivered_on_time_with_its_property(aliyun: Aliyun) -> None:
    start = in_ms(60_000)
    published_ms = now_ms(aliyun.broker)
    told = await aliyun.published("later", __STARTDELIVERTIME=start)
    [pending] = await aliyun.broker.schemes.timed().page(0, 10)
    assert pending.due_us is not None
    await aliyun.broker.mover.move_to(pending.due_us - 1)
    assert await aliyun.consume() == []
    await aliyun.broker.mover.advance(1)
    [message] = await aliyun.consume()
    assert message["MessageId"] == told["MessageId"]
    assert message["PublishTime"] == str(published_ms)
    assert message["Properties"] == f"__STARTDELIVERTIME:{start}|"


async def test_a_past_start_time_is_no_delay(aliyun: Aliyun) -> None:
    await aliyun.published("now", __STARTDELIVERTIME=in_ms(-1))
    assert await aliyun.bodies() == ["now"]


@pytest.mark.parametrize("start", ["soon", "1e13", pytest.param(in_ms(41 * DAY_MS), id="in 41 days")])
async def test_unacceptable_start_time_is_an_invalid_argument(aliyun: Aliyun, start: str) -> None:
    assert (await aliyun.publish(__STARTDELIVERTIME=start)).error == (400, "InvalidArgument")
    assert await aliyun.consume() == []


# Ordered consuming


async def test_shard_waits_for_earlier_acknowledgements(aliyun: Aliyun) -> None:
    for number in range(4):
        await aliyun.published(f"x{number}", __SHARDINGKEY="x")
    first, second = await aliyun.consume(2, trans="order")
    assert [first["MessageBody"], second["MessageBody"]] == ["x0", "x1"]
    assert first["Properties"] == "__SHARDINGKEY:x|"
    await aliyun.settle([first["ReceiptHandle"]])
    assert await aliyun.consume(trans="order") == []
    await aliyun.broker.mover.advance(60 * S)
    [again] = await aliyun.consume(trans="order")
    assert (again["MessageBody"], again["ConsumedTimes"]) == ("x1", "2")
    await aliyun.settle([again["ReceiptHandle"]])
    assert await aliyun.bodies(trans="order") == ["x2", "x3"]


async def test_sharding_key_chooses_the_queue_as_aliyuns_clients() -> None:
    async with running_aliyun(topic_queues=8) as aliyun:
        for key in ("order-1", "a", "polygenelubricants"):
            await aliyun.published(key, __SHARDINGKEY=key)
        topic = aliyun.broker.registry.topics.get("orders")
        assert {queue.queue_id for queue in topic.queues if queue.next_offset} == {1207111310 % 8, 97 % 8, 0}


# Half messages


async def test_half_message_is_committed_by_its_handle(aliyun: Aliyun) -> None:
    told = await aliyun.published("half", "T", __TransCheckT=10, a="1")
    handle = told["ReceiptHandle"]
    assert await aliyun.consume() == []
    assert await aliyun.consume(trans="pop") == []
    assert await aliyun.failures([handle], topic="audit", trans="commit") == {handle: "ReceiptHandleError"}
    assert await aliyun.failures([handle], trans="commit") == {}
    [message] = await aliyun.consume()
    assert message["MessageId"] == told["MessageId"]
    assert message["Properties"] == "a:1|__TransCheckT:10|"
    assert await aliyun.failures([handle], trans="commit") == {handle: "MessageNotExist"}


async def test_half_message_is_returned_to_its_producer_until_decided(aliyun: Aliyun) -> None:
    old = (await aliyun.published("half", __TransCheckT=300))["ReceiptHandle"]
    await aliyun.broker.mover.advance(300 * S)
    assert await aliyun.failures([old], trans="commit") == {old: "MessageNotExist"}
    [first] = await aliyun.consume(trans="pop", group="GID_p")
    assert (first["MessageBody"], first["ConsumedTimes"]) == ("half", "1")
    assert await aliyun.consume(trans="pop", group="GID_p") == []
    await aliyun.broker.mover.advance(10 * S)
    [second] = await aliyun.consume(trans="pop", group="GID_p")
    assert second["ConsumedTimes"] == "2"
    assert await aliyun.failures([second["ReceiptHandle"]], trans="rollback") == {}
    await aliyun.broker.mover.advance(3_600 * S)
    assert await aliyun.consume(trans="pop") == []
    assert await aliyun.consume() == []


async def test_a_half_message_may_be_delayed_as_well(aliyun: Aliyun) -> None:
    start = in_ms(3_600_000)
    await aliyun.published("half", __TransCheckT=10, __STARTDELIVERTIME=start)
    await aliyun.broker.mover.advance(10 * S)
    [half] = await aliyun.consume(trans="pop")
    assert half["Properties"] == f"__STARTDELIVERTIME:{start}|__TransCheckT:10|"
    assert await aliyun.failures([half["ReceiptHandle"]], trans="commit") == {}
    assert await aliyun.consume() == []
    await aliyun.broker.mover.move_to_next()
    [message] = await aliyun.consume()
    assert message["Properties"] == half["Properties"]


async def test_transaction_is_decided_without_a_group(aliyun: Aliyun) -> None:
    handle = (await aliyun.published("half", __TransCheckT=10))["ReceiptHandle"]
    assert (await aliyun.settle([handle], group="", trans="commit")).status == 204
    assert await aliyun.bodies() == ["half"]


@pytest.mark.parametrize("seconds", ["9", "301", "soon", "10.5"])
async def test_the_time_before_the_first_check_has_bounds(aliyun: Aliyun, seconds: str) -> None:
    answer = await aliyun.publish(__TransCheckT=seconds)
    assert answer.error == (400, "InvalidArgument")
    assert answer.fields["Message"].endswith("allowed: a whole number of seconds, 10 to 300")


# Refusals


async def test_unknown_topics_and_groups_are_refused() -> None:
    async with running_aliyun(auto_create_topics=False, auto_create_groups=False) as aliyun:
        target = "/topics/orders/messages?consumer=GID_a&numOfMessages=1"
        assert (await aliyun.publish()).error == (404, "TopicNotExist")
        assert (await aliyun.publish(__SHARDINGKEY="x")).error == (404, "TopicNotExist")
        assert (await aliyun.publish(__TransCheckT=10)).error == (404, "TopicNotExist")
        assert (await aliyun.call("GET", target)).error == (404, "TopicNotExist")
        assert (await aliyun.call("GET", f"{target}&trans=pop")).error == (404, "TopicNotExist")
        await aliyun.broker.registry.topics.put("orders", 1, 1, 6)
        assert (await aliyun.call("GET", target)).error == (404, "SubscriptionNotExist")


async def test_a_refused_topic_makes_no_group(aliyun: Aliyun) -> None:
    for topic, error in (
        ("a.b", (400, "InvalidArgument")),
        ("SCHEDULE_TOPIC_XXXX", (403, "AccessDenied")),
    ):
        answer = await aliyun.call("GET", f"/topics/{topic}/messages?consumer=GID_a&numOfMessages=1")
        assert answer.error == error
    assert [group.name for group in aliyun.broker.registry.groups] == []


@pytest.mark.parametrize(
    ("method", "query", "code"),
    [
        ("GET", "", "InvalidArgument"),
        ("GET", "?numOfMessages=1", "InvalidArgument"),
        ("GET", "?consumer=&numOfMessages=1", "InvalidArgument"),
        ("GET", "?consumer=a.b&numOfMessages=1", "InvalidArgument"),
        ("GET", "?numOfMessages=1&trans=pop", "InvalidArgument"),
        ("GET", "?consumer=g", "InvalidArgument"),
        ("GET", "?consumer=g&numOfMessages=0", "InvalidArgument"),
        ("GET", "?consumer=g&numOfMessages=-1", "InvalidArgument"),
        ("GET", "?consumer=g&numOfMessages=17", "InvalidArgument"),
        ("GET", "?consumer=g&numOfMessages=%EF%BC%91", "InvalidArgument"),
        ("GET", "?consumer=g&numOfMessages=1&waitseconds=31", "InvalidArgument"),
        ("GET", "?consumer=g&numOfMessages=1&waitseconds=-1", "InvalidArgument"),
        ("GET", "?consumer=g&numOfMessages=1&waitseconds=", "InvalidArgument"),
        ("GET", "?consumer=g&numOfMessages=1&trans=commit", "InvalidArgument"),
        ("GET", "?consumer=g&numOfMessages=1&tag=%7C%7C", "InvalidArgument"),
        ("GET", "?consumer=g&numOfMessages=1&timeout=3", "InvalidQueryString"),
        ("GET", "?consumer=g&consumer=g&numOfMessages=1", "InvalidQueryString"),
        ("GET", "?consumer=%FF&numOfMessages=1", "InvalidQueryString"),
        ("POST", "?consumer=g", "InvalidQueryString"),
        ("DELETE", "?consumer=g&receiptHandle=x", "InvalidQueryString"),
        ("DELETE", "?consumer=g&trans=pop", "InvalidArgument"),
        ("DELETE", "", "InvalidArgument"),
        ("PUT", "", "InvalidRequestURL"),
        ("PATCH", "", "InvalidRequestURL"),
    ],
)
async def test_wrong_parameters_are_named(aliyun: Aliyun, method: str, query: str, code: str) -> None:
    body = "<ReceiptHandles><ReceiptHandle>x</ReceiptHandle></ReceiptHandles>" if method == "DELETE" else ""
    answer = await aliyun.call(method, f"/topics/orders/messages{query}", body)
    assert answer.error == (400, code)
    assert answer.fields["Message"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("", "MalformedXML"),
        ("{}", "MalformedXML"),
        ("<Message/>", "InvalidArgument"),
        ("<Message><MessageBody/></Message>", "InvalidArgument"),
        ("<Message><MessageTag>t</MessageTag></Message>", "InvalidArgument"),
        ("<Message><MessageBody>a</MessageBody><MessageBody>b</MessageBody></Message>", "InvalidArgument"),
        ("<Message><MessageBody>a</MessageBody><Properties>a:b:c</Properties></Message>", "InvalidArgument"),
        ("<ReceiptHandles/>", "InvalidArgument"),
    ],
)
async def test_an_invalid_message_is_refused(aliyun: Aliyun, body: str, code: str) -> None:
    assert (await aliyun.call("POST", "/topics/orders/messages", body)).error == (400, code)


@pytest.mark.parametrize("half", ["", "|__TransCheckT:10"])
@pytest.mark.parametrize(
    "pair",
    ["_SYS_MSG_PRIORITY_:9", "__LITE_TOPIC:chat-1"],
)
async def test_properties_of_newer_brokers_are_refused(aliyun: Aliyun, pair: str, half: str) -> None:
    body = f"<Message><MessageBody>a</MessageBody><Properties>{pair}{half}|</Properties></Message>"
    answer = await aliyun.call("POST", "/topics/orders/messages", body)
    assert answer.error == (400, "InvalidArgument")
    assert "a name that RocketMQ does not reserve" in answer.fields["Message"]


async def test_a_body_over_the_limit_is_refused() -> None:
    async with running_aliyun(max_message_bytes=1_000) as aliyun:
        assert (await aliyun.publish("x" * 1_000)).status == 201
        assert (await aliyun.publish("x" * 1_001)).error == (400, "InvalidArgument")
        answer = await aliyun.publish("x" * 2_000_000)
        assert answer.error == (400, "InvalidArgument")
        assert "max_message_bytes" in answer.fields["Message"]


async def test_a_wrong_digest_is_refused_and_right_ones_are_taken(aliyun: Aliyun) -> None:
    body, target = "<Message><MessageBody>a</MessageBody></Message>", "/topics/orders/messages"
    right = {"Content-MD5": "ODgxNDlkMTc5MTExZmYyMDIzMGRmYmEwZjc0NWUwMTg="}
    assert (await aliyun.call("POST", target, body, headers=right)).status == 201
    answer = await aliyun.call("POST", target, body + " ", headers=right)
    assert answer.error == (400, "InvalidDigest")
    of_nothing = {"Content-MD5": "ZDQxZDhjZDk4ZjAwYjIwNGU5ODAwOTk4ZWNmODQyN2U="}
    answer = await aliyun.call("GET", f"{target}?consumer=GID_a&numOfMessages=1", headers=of_nothing)
    assert answer.status == 200


@pytest.mark.interpreted
async def test_a_defect_is_an_internal_error(aliyun: Aliyun, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_: Message) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(aliyun.broker.sender, "send", broken)
    assert (await aliyun.publish()).error == (500, "InternalError")


async def test_wait_is_limited_by_the_setting() -> None:
    async with running_aliyun(max_long_poll_us=US_PER_MS) as aliyun, asyncio.timeout(PATIENCE_S):
        assert await aliyun.consume(waitseconds=30) == []
