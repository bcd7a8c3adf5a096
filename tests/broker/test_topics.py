"""Topics: who creates them, which names are allowed, and who may use them for what."""

import asyncio
from pathlib import Path

import pytest

from mocketmq.broker.registry.topic import Topic
from mocketmq.errors import InvalidArgumentError, NoPermissionError, TopicNotFoundError, WrongQueueError
from mocketmq.message.names import FORBIDDEN_TOPICS, SCHEDULE_TOPIC
from mocketmq.settings import GroupDeclaration, TopicDeclaration
from tests.support.brokers import TOPIC, bodies, give_back, receive, running_broker, send, visible


async def test_declared_topics_and_groups_exist_from_the_start(tmp_path: Path) -> None:
    topics = (
        TopicDeclaration(name="wide", read_queues=16, write_queues=8),
        TopicDeclaration(name="inbox", perm="r"),
    )
    groups = (GroupDeclaration(name="hasty", max_retries=2, retry_queues=3),)
    for _ in range(2):
        async with running_broker(tmp_path, topics=topics, groups=groups) as broker:
            wide = broker.registry.topics.get("wide")
            assert (wide.read_queues, wide.write_queues, wide.perm, len(wide.queues)) == (16, 8, 6, 16)
            assert broker.registry.topics.get("inbox").perm == 4
            hasty = broker.registry.groups.get("hasty")
            assert (hasty.max_retries, hasty.retry_queues) == (2, 3)


async def test_declaration_changes_an_existing_topic(tmp_path: Path) -> None:
    async with running_broker(
        tmp_path, topics=(TopicDeclaration(name=TOPIC, read_queues=1, write_queues=1),)
    ):
        pass
    changed = (TopicDeclaration(name=TOPIC, read_queues=6, write_queues=6),)
    async with running_broker(tmp_path, topics=changed) as broker:
        assert [queue.queue_id for queue in broker.registry.topics.get(TOPIC).queues] == list(range(6))
        await send(broker, queue=5)
        assert len(await receive(broker)) == 1


async def test_a_start_writes_no_topic_that_has_not_changed(tmp_path: Path) -> None:
    topics = (TopicDeclaration(name="wide", read_queues=16, write_queues=8),)
    commits = []
    for _ in range(2):
        async with running_broker(tmp_path, topics=topics) as broker:
            commits.append(broker.store.writer.commits)
    assert commits[1] == 1, "the run itself"


async def test_first_message_or_receiver_creates_the_topic() -> None:
    async with running_broker(topic_queues=3) as broker:
        await send(broker)
        await receive(broker, topic="other")
        assert [broker.registry.topics.get(name).write_queues for name in (TOPIC, "other")] == [3, 3]


async def test_concurrent_first_uses_create_one_topic() -> None:
    async with running_broker() as broker:
        await asyncio.gather(*(send(broker, str(n), topic=f"t{n % 3}") for n in range(60)))
        counts = [len(await visible(broker, f"t{n}")) for n in range(3)]
        assert counts == [20, 20, 20]


async def test_topic_survives_the_disconnect_of_its_first_sender() -> None:
    async with running_broker() as broker:
        maker = asyncio.create_task(send(broker))
        other = asyncio.create_task(send(broker, topic="other"))  # waits until the first topic is created
        await broker.store.writer.commit(lambda _batch: maker.cancel())
        await asyncio.gather(maker, other, return_exceptions=True)
        await send(broker, "after")
        assert bodies(await visible(broker))[-1:] == ["after"]


async def test_senders_waiting_for_their_topic_keep_their_order() -> None:
    async with running_broker() as broker:
        went_on: list[int] = []

        async def sender(number: int) -> None:
            await broker.registry.used_topics.for_send(TOPIC)
            went_on.append(number)

        senders: list[asyncio.Task[None]] = []
        while len(went_on) < 10:  # some arrive before the topic exists, and some after
            senders.append(asyncio.create_task(sender(len(senders))))
            await asyncio.sleep(0)
        await asyncio.gather(*senders)
        assert went_on == list(range(len(senders)))


async def test_a_disconnected_sender_does_not_delay_others() -> None:
    async with running_broker() as broker:
        senders = [asyncio.create_task(broker.registry.used_topics.for_send(TOPIC)) for _ in range(9)]
        await asyncio.sleep(0)
        for number in (0, 3, 8):
            senders[number].cancel()
        done = await asyncio.gather(*senders, return_exceptions=True)
        assert {type(one) for one in done} == {Topic, asyncio.CancelledError}
        assert sum(isinstance(one, Topic) for one in done) == 6


async def test_with_automatic_creation_off_a_topic_must_exist() -> None:
    async with running_broker(auto_create_topics=False) as broker:
        with pytest.raises(TopicNotFoundError, match=r"topic\[orders\] not exist, apply first please!"):
            await send(broker)
        with pytest.raises(TopicNotFoundError):
            await receive(broker)
        await broker.registry.topics.put_by_client(TOPIC, 4, 4, 6)
        await send(broker)
        await give_back(broker, await receive(broker))  # the broker creates retry topics nevertheless
        assert broker.registry.topics.find_topic("%RETRY%billing")


@pytest.mark.parametrize(
    ("name", "remark"),
    [
        ("", "The specified topic is blank."),
        ("  ", "The specified topic is blank."),
        ("a.b", "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("ü", "illegal characters"),
        ("a\n", "illegal characters"),
        ("x" * 128, "The specified topic is longer than topic max length."),
        ("%DLQ%" + "x" * 258, "longer than"),
    ],
)
async def test_bad_names_are_refused_in_upstreams_words(name: str, remark: str) -> None:
    async with running_broker() as broker:
        for refused in (
            send(broker, topic=name),
            receive(broker, topic=name),
            broker.registry.topics.put_by_client(name, 1, 1, 6),
        ):
            with pytest.raises(InvalidArgumentError) as caught:
                await refused
            assert caught.value.field == "topic"
            assert remark in str(caught.value)
            assert caught.value.allowed.startswith("1 to 127 characters of a-z, ")


@pytest.mark.parametrize("name", ["x" * 127, "%DLQ%" + "x" * 255, "A|b%c-d_9"])
async def test_names_up_to_their_limits_are_accepted(name: str) -> None:
    async with running_broker() as broker:
        await send(broker, topic=name)
        assert len(await visible(broker, name)) == 1


@pytest.mark.parametrize("name", sorted(FORBIDDEN_TOPICS))
async def test_clients_cannot_send_to_system_topics(name: str) -> None:
    async with running_broker() as broker:
        with pytest.raises(NoPermissionError, match=rf"Sending message to topic\[{name}\] is forbidden\."):
            await send(broker, topic=name)


@pytest.mark.parametrize("name", [SCHEDULE_TOPIC, "TBW102", "rmq_sys_wheel_timer"])
async def test_clients_cannot_change_system_topics(name: str) -> None:
    async with running_broker() as broker:
        with pytest.raises(NoPermissionError, match="conflict with system topic"):
            await broker.registry.topics.put_by_client(name, 1, 1, 6)
        assert len(broker.registry.topics.get(SCHEDULE_TOPIC).queues) == 18


@pytest.mark.parametrize(
    ("read", "write", "perm", "field"),
    [
        (0, 1, 6, "read_queues"),
        (1, 0, 6, "write_queues"),
        (1025, 1, 6, "read_queues"),
        (1, 1025, 6, "write_queues"),
        (1, 1, 8, "perm"),
        (1, 1, -1, "perm"),
    ],
)
async def test_numbers_out_of_range_are_refused(read: int, write: int, perm: int, field: str) -> None:
    async with running_broker() as broker:
        with pytest.raises(InvalidArgumentError) as refused:
            await broker.registry.topics.put_by_client(TOPIC, read, write, perm)
        assert refused.value.field == field
        assert broker.registry.topics.find_topic(TOPIC) is None


async def test_permissions_are_kept_and_obeyed(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.registry.topics.put_by_client("inbox", 4, 4, 4)
        await broker.registry.topics.put_by_client("outbox", 4, 4, 2)
    async with running_broker(tmp_path) as broker:
        with pytest.raises(NoPermissionError, match=r"topic\[inbox\] sending message is forbidden"):
            await send(broker, topic="inbox")
        await send(broker, topic="outbox")
        with pytest.raises(NoPermissionError, match=r"topic\[outbox\] pulling message is forbidden"):
            await receive(broker, topic="outbox")
        assert await receive(broker, topic="inbox") == []


async def test_message_goes_to_its_queue_or_is_refused() -> None:
    async with running_broker() as broker:
        assert [(await send(broker, queue=n)).queue.queue_id for n in range(4)] == [0, 1, 2, 3]
        assert (await send(broker, queue=-1)).queue.queue_id in range(4)
        with pytest.raises(WrongQueueError, match=r"queueId\[4\] is illegal, orders has 0 to 3") as refused:
            await send(broker, queue=4)
        assert refused.value.field == "queue_id"


async def test_a_narrowed_topic_keeps_its_queues_and_reads_fewer() -> None:
    async with running_broker() as broker:
        await send(broker, "far", queue=3)
        await broker.registry.topics.put_by_client(TOPIC, 2, 2, 6)
        assert {(await send(broker)).queue.queue_id for _ in range(20)} <= {0, 1}
        assert "far" not in bodies(await receive(broker))
        await broker.registry.topics.put_by_client(TOPIC, 4, 4, 6)
        assert bodies(await receive(broker)) == ["far"]


async def test_level_topic_has_a_queue_per_level_and_at_least_18() -> None:
    for levels, queues in (("1s", 18), (" ".join(["1s"] * 20), 20)):
        async with running_broker(levels=levels) as broker:
            assert len(broker.registry.topics.get(SCHEDULE_TOPIC).queues) == queues
