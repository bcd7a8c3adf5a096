"""Producing by 10, 310 and 320: stored records, answers to senders, and refusals."""

import asyncio
from typing import Any

import pytest

from mocketmq.broker.registry.topic import PERM_INHERIT, PERM_WRITE
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.errors import (
    EmulatorError,
    StoppingError,
    StoreBusyError,
    StoreFullError,
    StoreUnavailableError,
)
from mocketmq.message.message import StoredMessage
from mocketmq.message.names import FORBIDDEN_TOPICS
from mocketmq.settings import TopicDeclaration
from tests.doors.remoting.producing import (
    BATCH,
    BORN_MS,
    UNIQUE,
    V1,
    V2,
    batch,
    header,
    parted,
    refused,
    sent,
)
from tests.support.brokers import GROUP, TOPIC, bodies, running_broker, visible
from tests.support.remoting import Remoting, running_remoting

ILLEGAL = (
    "the message is illegal, maybe msg body or properties length not matched."
    " msg body length limit 4194304B, msg properties length limit 32KB. "
)


async def only(remoting: Remoting, topic: str = TOPIC) -> StoredMessage:
    """Return the only message of a topic."""
    [stored] = await visible(remoting.broker, topic)
    return stored


def id_of(remoting: Remoting, stored: StoredMessage) -> str:
    """Return the message id as this client has to see it."""
    return f"7F000001{remoting.server.broker_port:08X}{stored.log_offset:016X}"


# One message


@pytest.mark.parametrize("code", [V1, V2])
async def test_a_message_is_stored_with_every_field_of_its_sender(code: int) -> None:
    async with running_remoting(clock="real") as remoting:
        own = {"KEYS": "a b", "TAGS": "red", "UNIQ_KEY": UNIQUE, "mine": "ä"}
        given = {"WAIT": "true", **own, "POP_CK": "0 1"}
        fields = {"queue_id": 2, "flag": -7, "sys_flag": 0x301, "reconsume_times": 3}
        ext = await sent(remoting.client, b"\x00body", code, given, **fields)
        stored = await only(remoting)
        assert ext == {
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "msgId": id_of(remoting, stored),
            "queueId": "2",
            "queueOffset": "0",
            "transactionId": UNIQUE,
        }
        assert parted(stored.properties) == {"WAIT": "true", **own, "CLUSTER": "DefaultCluster"}
        assert (stored.body, stored.flag, stored.sys_flag, stored.reconsume_times) == (
            b"\x00body",
            -7,
            0x301,
            3,
        )
        assert (stored.born_us, stored.born_host) == (BORN_MS * US_PER_MS, remoting.client.address)
        assert stored.unique_key == UNIQUE


async def test_a_message_without_a_unique_key_gets_one() -> None:
    async with running_remoting() as remoting:
        ext = await sent(remoting.client)
        stored = await only(remoting)
        assert ext["transactionId"] == stored.unique_key == parted(stored.properties)["UNIQ_KEY"]


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a\x01b\x02", {"a": "b"}),  # 5.x ends the string with a separator
        ("a\x01\x02b\x01c", {"b": "c"}),
        ("\x01a\x02b\x01c\x02d", {"b": "c"}),
        ("a\x01b\x02a\x01c", {"a": "c"}),
        ("", {}),
    ],
)
async def test_properties_are_parsed_as_upstream(text: str, properties: dict[str, str]) -> None:
    async with running_remoting() as remoting:
        await sent(remoting.client, properties=text)
        stored = parted((await only(remoting)).properties)
        assert {key: stored[key] for key in stored if key not in ("CLUSTER", "UNIQ_KEY")} == properties


async def test_meaningless_system_flags_are_dropped() -> None:
    async with running_remoting() as remoting:
        await sent(remoting.client, sys_flag=0x7FFFFFFB)
        assert (await only(remoting)).sys_flag == 0x70B


async def test_born_times_are_read_from_the_wall_clock() -> None:
    async with running_remoting(clock="real") as remoting:
        await remoting.broker.mover.advance(3600 * US_PER_S)
        await sent(remoting.client)
        born_us = (await only(remoting)).born_us
        assert born_us == remoting.broker.clock.from_wall(BORN_MS * US_PER_MS)
        assert abs(born_us - BORN_MS * US_PER_MS - 3600 * US_PER_S) < US_PER_S


async def test_queues_are_chosen_by_the_sender_or_at_random() -> None:
    async with running_remoting() as remoting:
        assert [(await sent(remoting.client, queue_id=n))["queueId"] for n in (3, 0, 3)] == ["3", "0", "3"]
        assert (await sent(remoting.client, queue_id=3))["queueOffset"] == "2"
        ids = {(await sent(remoting.client, queue_id=n))["queueId"] for n in [-1, -(1 << 31)] * 30}
        assert ids == {"0", "1", "2", "3"}


async def test_oneway_send_is_stored_without_an_answer() -> None:
    async with running_remoting() as remoting:
        for body in (b"1", b"2", b""):  # the last is refused, but oneway senders get no answer
            remoting.client.oneway(V2, header(), body)
        await sent(remoting.client, b"3")  # the client fails if it gets an unsolicited answer
        assert bodies(await visible(remoting.broker)) == ["1", "2", "3"]


async def test_messages_keep_their_order_during_topic_creation() -> None:
    async with running_remoting() as remoting:
        for number in range(500):
            remoting.client.oneway(V2, header(), str(number).encode())
            if number % 7 == 0:
                await asyncio.sleep(0)
        await sent(remoting.client, b"500")
        assert bodies(await visible(remoting.broker)) == [str(number) for number in range(501)]


async def test_failed_topic_creation_refuses_every_waiting_send() -> None:
    async with running_remoting(auto_create_topics=False) as remoting:
        answers = await asyncio.gather(*(remoting.client.call(V2, header(), b"x") for _ in range(100)))
        assert {answer.code for answer in answers} == {17}
    async with running_remoting() as remoting:
        wanted = [header(default_topic_queue_nums=count) for count in (0, 0, 3, 4)]
        answers = await asyncio.gather(*(remoting.client.call(V2, ext, b"x") for ext in wanted))
        assert [answer.code for answer in answers] == [1, 1, 0, 0]
        assert remoting.broker.registry.topics.get(TOPIC).write_queues == 3


async def test_ids_name_the_address_used_by_the_client() -> None:
    async with running_remoting(advertise="10.1.2.3:1234") as remoting:
        assert (await sent(remoting.client))["msgId"].startswith("0A010203000004D2")


async def test_an_ipv6_client_is_shown_with_a_loopback_address() -> None:
    async with running_remoting(host="::1") as remoting:
        ext = await sent(remoting.client)
        stored = await only(remoting)
        assert stored.born_host == f"127.0.0.1:{remoting.client.address.rpartition(':')[2]}"
        assert ext["msgId"] == id_of(remoting, stored)


# Batches


async def test_a_batch_is_stored_side_by_side_in_one_queue() -> None:
    async with running_remoting() as remoting:
        await sent(remoting.client, queue_id=1)
        body = batch((b"a", {"UNIQ_KEY": "A1", "TAGS": "x"}), (b"b", {"WAIT": "true"}), (b"c", {}), flag=5)
        common = {"all": "1", "TAGS": "y", "UNIQ_KEY": "of the batch"}
        ext = await sent(remoting.client, body, BATCH, common, queue_id=1)
        stored = (await visible(remoting.broker))[1:]
        assert [one.queue_offset for one in stored] == [1, 2, 3]
        assert ext == {
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "msgId": ",".join(id_of(remoting, one) for one in stored),
            "queueId": "1",
            "queueOffset": "1",
        }
        assert [(one.body, one.flag) for one in stored] == [(b"a", 5), (b"b", 5), (b"c", 5)]
        for one, own in zip(stored, ({}, {"WAIT": "true"}, {}), strict=True):
            properties = parted(one.properties)
            assert properties.pop("UNIQ_KEY") == one.unique_key
            assert properties == {"TAGS": "y", "all": "1", "CLUSTER": "DefaultCluster", **own}
        assert stored[0].unique_key == "A1"
        assert len({one.unique_key for one in stored}) == 3


@pytest.mark.parametrize(("code", "is_batch"), [(V1, True), (V2, True), (BATCH, True), (BATCH, False)])
async def test_header_decides_what_is_a_batch(code: int, is_batch: bool) -> None:
    async with running_remoting() as remoting:
        body = batch((b"a", {}), (b"b", {}))
        # 320 always has the header of 310.
        await sent(remoting.client, body, code, batch=is_batch)
        assert len(await visible(remoting.broker)) == 1 + is_batch


async def test_a_batch_without_a_queue_goes_to_one_queue() -> None:
    async with running_remoting() as remoting:
        for _ in range(20):
            await sent(remoting.client, batch(*[(b"x", {})] * 10), BATCH, queue_id=-1)
        counts = [queue.next_offset for queue in remoting.broker.registry.topics.get(TOPIC).queues]
        assert sum(counts) == 200
        assert not any(count % 10 for count in counts)
        assert sum(count > 0 for count in counts) > 1


@pytest.mark.parametrize(
    ("body", "fields", "code", "sentence"),
    [
        (batch((b"a", {}), (b"b", {"DELAY": "1"})), {}, 13, "a message of a batch cannot be delayed"),
        (batch((b"a", {})), {"properties": {"DELAY": "1"}}, 13, "a message of a batch cannot be delayed"),
        (batch((b"a", {"TIMER_DELAY_MS": "1"})), {}, 13, "a message of a batch cannot be delayed"),
        (batch((b"a", {"TRAN_MSG": "true"})), {}, 13, "a message of a batch cannot be transactional"),
        (batch((b"a", {})), {"sys_flag": 4}, 13, "a message of a batch cannot be transactional"),
        (batch((b"a", {})), {"sys_flag": 12}, 13, "a message of a batch cannot be transactional"),
        (batch((b"a", {})), {"topic": "%RETRY%g"}, 13, "batch request does not support retry group %RETRY%g"),
        (batch((b"a", {}), (b"", {})), {}, 13, "the body takes 0 bytes; allowed: 1 to 4194304"),
        (batch((b"a", {}))[:-1], {}, 13, "the batch ends in the middle of a message"),
        (b"", {}, 13, "the batch contains no message"),
        (b"x" * ((4 << 20) + 1), {}, 13, "the batch has 4194305 bytes; allowed: 1 to 4194304"),
        (batch((b"a", {"DELAY": "x"})), {}, 1, 'java.lang.NumberFormatException: For input string: "x"'),
        (batch((b"a", {}), (b"b", {})), {"queue_id": 4}, 29, "request queueId[4] is illegal"),
    ],
)
async def test_a_batch_is_stored_whole_or_refused(
    body: bytes, fields: dict[str, Any], code: int, sentence: str
) -> None:
    async with running_remoting() as remoting:
        refusal = await refused(remoting.client, body, BATCH, **fields)
        assert refusal[0] == code
        assert sentence in refusal[1]
        assert not [
            t for t in remoting.broker.registry.topics if any(queue.next_offset for queue in t.queues)
        ]


async def test_a_batch_may_hold_messages_with_delay_level_0() -> None:
    async with running_remoting() as remoting:
        past = {"DELAY": "0", "TIMER_DELIVER_MS": "1"}
        await sent(remoting.client, batch((b"a", past), (b"b", {"DELAY": "-1"})), BATCH)
        assert bodies(await visible(remoting.broker)) == ["a", "b"]


async def test_batch_is_limited_to_the_ids_of_one_answer() -> None:
    async with running_remoting() as remoting:
        ext = await sent(remoting.client, batch(*[(b"x", {})] * 16_384), BATCH)
        assert ext["msgId"].count(",") == 16_383
        code, sentence = await refused(remoting.client, batch(*[(b"x", {})] * 16_385), BATCH)
        assert code == 13
        assert sentence == ILLEGAL + "the batch contains more than 16384 messages; allowed: 1 to 16384"


# Topics made on first use


@pytest.mark.parametrize(("wanted", "made"), [(4, 4), (1, 1), (8, 8), (9, 8), ((1 << 31) - 1, 8)])
async def test_a_topic_is_created_from_its_template_with_the_clients_queue_count(
    wanted: int, made: int
) -> None:
    async with running_remoting() as remoting:
        template = remoting.broker.registry.topics.get("TBW102")
        assert (template.read_queues, template.write_queues, template.perm) == (8, 8, 7)
        await sent(remoting.client, default_topic_queue_nums=wanted)
        topic = remoting.broker.registry.topics.get(TOPIC)
        assert (topic.read_queues, topic.write_queues, topic.perm) == (made, made, 6)
        await sent(remoting.client, default_topic_queue_nums=2)  # the topic exists, so the number is ignored
        assert remoting.broker.registry.topics.get(TOPIC) is topic


async def test_template_topic_needs_the_inherit_permission() -> None:
    declared = (TopicDeclaration(name="plain"),)
    async with running_remoting(topics=declared, auto_create_topics=False) as remoting:
        await remoting.broker.registry.topics.put("narrow", 9, 2, PERM_WRITE | PERM_INHERIT)
        await sent(remoting.client, default_topic="narrow")
        topic = remoting.broker.registry.topics.get(TOPIC)
        assert (topic.read_queues, topic.write_queues, topic.perm) == (2, 2, 2)
        for name in ("plain", "none", "TBW102", ""):
            code, sentence = await refused(remoting.client, topic="other", default_topic=name)
            assert (code, sentence) == (17, "topic[other] not exist, apply first please!")


async def test_topic_without_queues_is_refused() -> None:
    async with running_remoting() as remoting:
        for wanted in (0, -1):
            code, sentence = await refused(remoting.client, default_topic_queue_nums=wanted)
            assert (code, sentence) == (1, f"read_queues is {wanted}; allowed: 1 to 1024")


async def test_template_exists_only_with_automatic_topic_creation(tmp_path: Any) -> None:
    async with running_broker(tmp_path, auto_create_topics=False) as broker:
        assert broker.registry.topics.find_topic("TBW102") is None
    async with running_broker(tmp_path) as broker:
        assert broker.registry.topics.get("TBW102").perm == 7
    async with running_remoting(data=str(tmp_path), auto_create_topics=False) as remoting:
        assert remoting.broker.registry.topics.get("TBW102").perm == 0
        assert (await refused(remoting.client))[0] == 17
    async with running_broker(tmp_path) as broker:
        assert broker.registry.topics.get("TBW102").perm == 7


async def test_upstream_lets_clients_send_to_the_template_itself() -> None:
    async with running_remoting() as remoting:
        await sent(remoting.client, topic="TBW102", queue_id=7)


@pytest.mark.parametrize(
    "topic", ["RMQ_SYS_TRACE_TOPIC", "rmq_sys_TRACE_DATA_DefaultRegion", "rmq_sys_TRACE_DATA_"]
)
@pytest.mark.parametrize("auto_create_topics", [True, False])
async def test_trace_topic_is_created_by_its_first_message(topic: str, auto_create_topics: bool) -> None:
    async with running_remoting(auto_create_topics=auto_create_topics) as remoting:
        await sent(remoting.client, topic=topic)
        made = remoting.broker.registry.topics.get(topic)
        assert (made.read_queues, made.write_queues, made.perm, made.is_system) == (1, 1, 6, True)


# Refusals


@pytest.mark.parametrize(
    ("fields", "code", "sentence"),
    [
        ({"topic": " "}, 29, "The specified topic is blank."),
        (
            {"topic": "a.b"},
            29,
            "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        ({"topic": "x" * 128}, 29, "The specified topic is longer than topic max length."),
        ({"topic": "inbox"}, 16, "the topic[inbox] sending message is forbidden"),
        ({"topic": "CHECKPOINT_TOPIC"}, 17, "topic[CHECKPOINT_TOPIC] not exist, apply first please!"),
        ({"queue_id": 4}, 29, "request queueId[4] is illegal, orders has 0 to 3"),
        (
            {"queue_id": (1 << 31) - 1},
            29,
            "request queueId[2147483647] is illegal, orders has 0 to 3",
        ),
        ({"properties": {"k": "a\x01b"}}, 13, ILLEGAL + "a property contains U+0001 or U+0002, which"),
        (
            {"properties": {"UNIQ_KEY": "A", "k": "v" * 32_731}},
            13,
            ILLEGAL + "the properties take 32768 bytes; allowed: at most 32767",
        ),
        ({"reconsume_times": -1}, 1, "reconsumeTimes is -1; allowed: 0 or more"),
        ({"born_timestamp": -1}, 1, "bornTimestamp is -1; allowed: 0 to 253402300799999"),
        (
            {"born_timestamp": 253_402_300_800_000},
            1,
            "bornTimestamp is 253402300800000; allowed: 0 to 253402300799999",
        ),
    ],
)
async def test_a_refused_message_is_not_stored(fields: dict[str, Any], code: int, sentence: str) -> None:
    async with running_remoting(topics=(TopicDeclaration(name="inbox", perm="r"),)) as remoting:
        refusal = await refused(remoting.client, **{"properties": {"UNIQ_KEY": "A"}, **fields})
        assert refusal[0] == code
        assert refusal[1].startswith(sentence)
        assert not [
            t for t in remoting.broker.registry.topics if any(queue.next_offset for queue in t.queues)
        ]


@pytest.mark.parametrize("size", [0, (4 << 20) + 1])
async def test_a_body_is_neither_empty_nor_larger_than_the_setting_allows(size: int) -> None:
    async with running_remoting() as remoting:
        code, sentence = await refused(remoting.client, b"x" * size)
        assert (code, sentence) == (13, f"{ILLEGAL}the body takes {size} bytes; allowed: 1 to 4194304")


async def test_messages_at_the_limits_are_accepted() -> None:
    async with running_remoting() as remoting:
        # Added properties count as well; with its key and two separators, CLUSTER takes 23 bytes.
        longest = {"UNIQ_KEY": "A", "k": "v" * (32_767 - 23 - 11 - 3)}
        await sent(remoting.client, b"x" * (4 << 20), properties=longest)
        stored = await only(remoting)
        assert (len(stored.body), len(stored.properties)) == (4 << 20, 32_767)
        code, _ = await refused(remoting.client, properties={**longest, "k": longest["k"] + "v"})
        assert code == 13


@pytest.mark.parametrize("topic", sorted(FORBIDDEN_TOPICS))
async def test_no_client_sends_to_the_brokers_own_topics(topic: str) -> None:
    async with running_remoting() as remoting:
        code, sentence = await refused(remoting.client, topic=topic)
        assert (code, sentence) == (16, f"Sending message to topic[{topic}] is forbidden.")


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("error", "code"),
    [(StoreUnavailableError, 14), (StoreFullError, 14), (StoppingError, 14), (StoreBusyError, 2)],
)
@pytest.mark.parametrize("form", [V2, BATCH])
async def test_failed_write_is_reported(
    error: type[EmulatorError], code: int, form: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_remoting() as remoting:
        await sent(remoting.client)

        def put(*_: object, **__: object) -> None:
            raise error("the disk is gone")

        with monkeypatch.context() as patched:
            patched.setattr(remoting.broker.store.writer, "put", put)
            refusal = await refused(remoting.client, batch((b"x", {})), form)
        assert refusal == (code, "the disk is gone")


# Retries that a client sends itself


@pytest.mark.parametrize(
    ("times", "most", "version", "topic"),
    [
        (0, None, 409, f"%RETRY%{GROUP}"),
        (15, None, 409, f"%RETRY%{GROUP}"),
        (16, None, 409, f"%RETRY%{GROUP}"),
        (17, None, 409, f"%DLQ%{GROUP}"),
        (3, 3, 409, f"%RETRY%{GROUP}"),
        (4, 3, 409, f"%DLQ%{GROUP}"),
        (20, 20, 121, f"%RETRY%{GROUP}"),
        (20, 21, 120, f"%DLQ%{GROUP}"),
        (0, 0, 409, f"%RETRY%{GROUP}"),
        (1, 0, 409, f"%DLQ%{GROUP}"),
        (5, -1, 409, f"%DLQ%{GROUP}"),
    ],
)
async def test_a_retry_beyond_the_limit_becomes_a_dead_letter(
    times: int, most: int | None, version: int, topic: str
) -> None:
    async with running_remoting() as remoting:
        is_dead = topic.startswith("%DLQ%")
        given = {"topic": f"%RETRY%{GROUP}", "reconsume_times": times, "max_reconsume_times": most}
        fields = header(V2, {"DELAY": "3"}, queue_id=9 if is_dead else 0, **given)
        await remoting.client.ok(V2, fields, b"again", version=version)
        await remoting.broker.mover.advance(10 * US_PER_S)
        stored = await only(remoting, topic)
        assert (stored.body, stored.reconsume_times) == (b"again", times)
        assert parted(stored.properties)["DELAY"] == ("0" if is_dead else "3")
        assert (stored.parked_offset is None) == is_dead
        assert (
            len(remoting.broker.registry.topics.get(f"%RETRY%{GROUP}").queues) == 4
        )  # like any topic that a client creates
        assert len(remoting.broker.registry.topics.get(topic).queues) == (1 if is_dead else 4)


async def test_retry_limit_defaults_to_that_of_the_group() -> None:
    async with running_remoting() as remoting:
        await remoting.broker.registry.groups.put(GROUP, 2, 1)
        for times in (2, 3):
            await sent(remoting.client, str(times).encode(), topic=f"%RETRY%{GROUP}", reconsume_times=times)
        assert (await only(remoting, f"%RETRY%{GROUP}")).body == b"2"
        assert (await only(remoting, f"%DLQ%{GROUP}")).body == b"3"


async def test_retry_without_a_known_group_is_refused() -> None:
    async with running_remoting(auto_create_groups=False) as remoting:
        for topic, sentence in (
            ("%RETRY%none", "subscription group not exist, none"),
            ("%RETRY%", "%RETRY% is the retry topic of no group"),
        ):
            assert await refused(remoting.client, topic=topic) == (26, sentence)
            assert remoting.broker.registry.topics.find_topic(topic) is None


@pytest.mark.parametrize("is_known", [True, False], ids=["known topic", "new topic"])
async def test_a_lite_topic_is_refused_in_every_form_of_a_send_where_there_can_be_none(
    is_known: bool,
) -> None:
    name, value = "__LITE_TOPIC", "chat-1"
    other = "allowed: none together with the property"
    batched = "allowed: none, as the messages of a batch share a queue. Send the message by itself"
    forms: list[tuple[int, bytes, dict[str, str], str]] = [
        (V1, b"hello", {name: value}, "is of type mixed; allowed: a topic of type lite"),
        (V2, b"hello", {name: value}, "is of type mixed; allowed: a topic of type lite"),
        (V2, b"half", {name: value, "TRAN_MSG": "true", "PGROUP": "makers"}, f"{other} TRAN_MSG"),
        (V2, b"late", {name: value, "DELAY": "3"}, f"{other} DELAY"),
        (V2, b"later", {name: value, "TIMER_DELAY_SEC": "5"}, f"{other} TIMER_DELAY_SEC"),
        (BATCH, batch((b"one", {}), (b"two", {name: value})), {}, batched),
        (BATCH, batch((b"one", {})), {name: value}, batched),
    ]
    async with running_remoting() as remoting:
        if is_known:
            await remoting.broker.registry.topics.ensure(TOPIC, 1)
        for code, body, properties, sentence in forms:
            told = await refused(remoting.client, body, code, properties)
            assert (told[0], sentence in told[1]) == (13, True), told
        assert [queue for queue in remoting.broker.registry.topics.queues if queue.next_offset] == []
