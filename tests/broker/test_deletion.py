"""Deleting topics and groups: what is deleted with them, what stays, and how waiting clients are notified."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mocketmq import event_loop
from mocketmq.broker.broker import Broker
from mocketmq.broker.registry.groups import GroupConfig
from mocketmq.broker.registry.topic_config import TopicConfig
from mocketmq.broker.sending.intake import AcceptedMessage
from mocketmq.errors import GroupNotFoundError, NoPermissionError, TopicNotFoundError
from mocketmq.message.message import Message, StoredMessage
from mocketmq.message.properties import DELAY
from mocketmq.store.database import Database
from mocketmq.store.messages import fitting_messages_in
from tests.support.brokers import (
    GROUP,
    TOPIC,
    S,
    acknowledge,
    bodies,
    give_back,
    receive,
    rows,
    running_broker,
    send,
    visible,
)
from tests.support.patience import PATIENCE_S
from tests.support.waiting import Waiting


async def test_deleting_a_topic_deletes_its_messages_and_pending_ones(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker, "visible")
        await send(broker, "given back")
        await give_back(broker, await receive(broker, 1))
        await send(broker, "by level", level=3)
        await send(broker, "by time", __STARTDELIVERTIME=str(broker.clock.now_us() // 1_000 + 5_000))
        await send(broker, "of another", topic="another", level=3)
        assert broker.pending.count == 4
        assert await broker.reset.delete_topic(TOPIC) == 3
        assert broker.registry.topics.find_topic(TOPIC) is None
        assert bodies(p.message for p in await broker.pending.list()) == ["of another"]
        assert (await broker.mover.advance(3_600 * S)).fired == 1
        assert broker.registry.topics.find_topic(TOPIC) is None
    assert rows(tmp_path, "SELECT * FROM progress") == []
    assert rows(tmp_path, f"SELECT * FROM topics WHERE name = '{TOPIC}'") == []
    async with running_broker(tmp_path) as broker:
        assert broker.registry.topics.find_topic(TOPIC) is None
        assert bodies(await visible(broker, "another")) == ["of another"]


async def test_many_messages_on_levels_are_cancelled_in_small_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "PIECE", 10)
    async with running_broker(tmp_path) as broker:
        await broker.sender.send_batch([Message(TOPIC, b"body", {DELAY: "1"}) for _ in range(105)])
        await broker.sender.send_batch([Message(TOPIC, b"body", {DELAY: "3"}) for _ in range(105)])
        await send(broker, "of another", topic="another", level=3)
        await broker.mover.advance(S)
        sizes, transact = list[int](), Database.transact

        async def noted(database: Database, statements: Mapping[str, Sequence[Any]], *more: Any) -> None:
            sizes.append(sum(map(len, statements.values())))
            await transact(database, statements, *more)

        monkeypatch.setattr(Database, "transact", noted)
        assert await broker.reset.delete_topic(TOPIC) == 105
        assert max(sizes) < 50
    async with running_broker(tmp_path) as broker:
        assert (await broker.mover.advance(3_600 * S)).fired == 1
        assert bodies(await visible(broker, "another")) == ["of another"]
    assert rows(tmp_path, "SELECT count(*) AS n FROM interventions") == [{"n": 105}]


@pytest.mark.parametrize("is_restarted", [True, False])
async def test_recreated_topic_keeps_only_its_offsets(tmp_path: Path, is_restarted: bool) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.registry.topics.put(TOPIC, 2, 2, 6, TopicConfig(order=True))
        for _ in range(3):
            await send(broker, "before", queue=1)
        await acknowledge(broker, await receive(broker, 1))
        await broker.reset.delete_topic(TOPIC)
        if not is_restarted:
            await check_topic_made_again(broker)
    if is_restarted:
        async with running_broker(tmp_path) as broker:
            await check_topic_made_again(broker)
    async with running_broker(tmp_path) as broker:
        assert bodies(await visible(broker)) == ["after"]


async def check_topic_made_again(broker: Broker) -> None:
    topic = await broker.registry.topics.put(TOPIC, 3, 3, 6)
    assert not topic.config.order
    assert [(queue.min_offset, queue.next_offset) for queue in topic.queues] == [(0, 0), (3, 3), (0, 0)]
    assert (await send(broker, "after", queue=1)).stored.queue_offset == 3
    assert broker.committed_offsets.start_offset(GROUP, TOPIC, 1) == 3
    assert bodies(await receive(broker)) == ["after"]


async def test_deleting_a_topic_drops_what_groups_have_in_flight(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker)
        taken = await receive(broker)
        await broker.reset.delete_topic(TOPIC)
        assert not (await acknowledge(broker, taken)).done
        assert (broker.consuming_groups.get(GROUP).receipts, broker.consuming_groups.get(GROUP).queues) == (
            {},
            {},
        )
        await broker.mover.advance(60 * S)
    async with running_broker(tmp_path) as broker:
        assert broker.consuming_groups.get(GROUP).queues == {}


@pytest.mark.parametrize("is_pull", [True, False])
async def test_a_waiting_receiver_is_refused_when_its_topic_is_deleted(is_pull: bool) -> None:
    async with running_broker() as broker:
        waiting = Waiting(broker.polls)
        await broker.registry.topics.put(TOPIC, 1, 1, 6)
        consuming: asyncio.Future[object] = asyncio.ensure_future(
            broker.pull.pull(GROUP, TOPIC, 0, 0, 32, wait_s=30) if is_pull else receive(broker, wait_s=30)
        )
        await waiting.begun()
        await broker.reset.delete_topic(TOPIC)
        with pytest.raises(TopicNotFoundError):
            await consuming
        assert broker.group_progress.topics_of(GROUP) == []


@pytest.mark.parametrize(
    ("topic", "error"),
    [("nowhere", TopicNotFoundError), ("TBW102", NoPermissionError), ("%HALF%orders", NoPermissionError)],
)
async def test_undeletable_topics_are_refused(topic: str, error: type[Exception]) -> None:
    async with running_broker() as broker:
        with pytest.raises(error):
            await broker.reset.delete_topic(topic)


@pytest.mark.parametrize("is_restarted", [True, False])
@pytest.mark.parametrize("is_cleaned", [True, False])
async def test_deleted_group_keeps_its_offsets_and_frees_its_messages(
    tmp_path: Path, is_restarted: bool, is_cleaned: bool
) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.registry.topics.put(TOPIC, 1, 1, 6)
        await broker.registry.groups.put(GROUP, 3, 2, GroupConfig(broker_id=7))
        for number in range(3):
            await send(broker, str(number))
        await acknowledge(broker, await receive(broker, 1))
        held = await receive(broker, 1)
        await broker.consuming_groups.delete(GROUP, clean_offsets=is_cleaned)
        with pytest.raises(GroupNotFoundError):
            await acknowledge(broker, held)
        if not is_restarted:
            await check_group_made_again(broker, is_cleaned)
    if is_restarted:
        assert rows(tmp_path, "SELECT * FROM receipts") == []
        async with running_broker(tmp_path) as broker:
            assert broker.registry.groups.find_group(GROUP) is None
            await check_group_made_again(broker, is_cleaned)


async def check_group_made_again(broker: Broker, is_cleaned: bool) -> None:
    assert bodies(await receive(broker)) == (["0", "1", "2"] if is_cleaned else ["1", "2"])
    group = broker.registry.groups.get(GROUP)
    assert (group.max_retries, group.config) == (16, GroupConfig())
    await broker.mover.advance(60 * S)  # no receipt of the former group expires


async def test_receive_takes_no_message_for_a_group_being_deleted(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker, topic="another")
        await receive(broker, topic="another")
        await broker.registry.topics.put(TOPIC, 1, 1, 6)
        waiting = Waiting(broker.polls)
        receiving = asyncio.create_task(receive(broker, wait_s=30))
        await waiting.begun()
        await broker.consuming_groups.delete(GROUP, clean_offsets=True)
        await send(broker)
        with pytest.raises(GroupNotFoundError):
            await receiving
        assert bodies(await receive(broker)) == ["hello"]
    async with running_broker(tmp_path) as broker:
        assert broker.registry.groups.find_group(GROUP)


@pytest.mark.interpreted
async def test_receive_takes_no_message_of_a_topic_being_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker)

        async def before_the_deletion(*what: Any, **more: Any) -> Any:
            found = await fitting_messages_in(*what, **more)
            await broker.reset.delete_topic(TOPIC)
            return found

        with monkeypatch.context() as patched:
            patched.setattr("mocketmq.broker.consuming.selection.fitting_messages_in", before_the_deletion)
            with pytest.raises(TopicNotFoundError):
                await receive(broker)
        await broker.registry.topics.put(TOPIC, 4, 4, 6)
        assert await receive(broker) == []
        assert broker.consuming_groups.get(GROUP).receipts == {}
    assert rows(tmp_path, "SELECT * FROM receipts") == []


SENDS: dict[str, Callable[[Broker], Awaitable[object]]] = {
    "at once": lambda broker: send(broker, "last"),
    "by level": lambda broker: send(broker, "last", level=1),
    "by time": lambda broker: broker.sender.send(timed(broker)),
    "a batch": lambda broker: broker.sender.send_batch(
        [Message("another", b"first"), Message(TOPIC, b"last")]
    ),
    "a batch by time": lambda broker: broker.sender.send_batch([Message("another", b"first"), timed(broker)]),
    "together": lambda broker: broker.sender.send_together(
        [Message(TOPIC, b"first"), Message(TOPIC, b"last")]
    ),
    "half": lambda broker: broker.half_messages.prepare_checked(Message(TOPIC, b"last"), GROUP),
}


def timed(broker: Broker) -> Message:
    return Message(TOPIC, b"last", {"__STARTDELIVERTIME": str(broker.clock.now_us() // 1_000 + 5_000)})


@pytest.mark.interpreted
@pytest.mark.parametrize("way", SENDS)
async def test_send_checked_before_the_deletion_is_refused_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    async with running_broker(tmp_path) as broker:
        for topic in (TOPIC, "another"):
            await broker.registry.topics.put(topic, 1, 1, 6)
        accept = broker.sender.intake.accept

        async def before_the_deletion(message: Message, **how: bool) -> AcceptedMessage:
            accepted = await accept(message, **how)
            if message.body == b"last":
                await broker.reset.delete_topic(TOPIC)
            return accepted

        with monkeypatch.context() as patched:
            patched.setattr(broker.sender.intake, "accept", before_the_deletion)
            patched.setattr(broker.sender.intake, "accept_at_once", lambda _message, **_how: None)
            with pytest.raises(TopicNotFoundError):
                await SENDS[way](broker)
        assert (broker.pending.count, broker.half_messages.open()) == (
            0,
            [],
        )
        assert (await broker.mover.advance(60 * S)).fired == 0
        assert broker.registry.topics.find_topic(TOPIC) is None
        await broker.registry.topics.put(TOPIC, 1, 1, 6)
        assert [*await visible(broker), *await visible(broker, "another")] == []


@pytest.mark.parametrize("way", ["at once", "by level", "half"])
async def test_send_to_a_topic_being_deleted_is_refused(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    async with running_broker() as broker:
        await broker.registry.topics.put(TOPIC, 1, 1, 6)
        page = broker.schemes.timed().page

        async def meanwhile(*what: Any, **more: Any) -> list[StoredMessage]:
            with pytest.raises(TopicNotFoundError, match="is being deleted"):
                await SENDS[way](broker)
            return await page(*what, **more)

        monkeypatch.setattr(broker.schemes.timed(), "page", meanwhile)
        assert await broker.reset.delete_topic(TOPIC) == 0
        await SENDS[way](broker)  # creates the topic anew


@pytest.mark.parametrize("is_half", [True, False])
async def test_a_deletion_includes_messages_being_stored(
    monkeypatch: pytest.MonkeyPatch, is_half: bool
) -> None:
    async with running_broker() as broker:
        await broker.registry.topics.put(TOPIC, 1, 1, 6)
        await SENDS["half"](broker)  # its topic exists
        begun, go_on = asyncio.Event(), asyncio.Event()
        transact = Database.transact

        async def slowly(*what: Any) -> None:
            begun.set()
            await go_on.wait()
            await transact(*what)

        monkeypatch.setattr(Database, "transact", slowly)
        sending = asyncio.ensure_future(SENDS["half" if is_half else "by level"](broker))
        await begun.wait()
        deleting = asyncio.create_task(broker.reset.delete_topic(TOPIC))
        async with asyncio.timeout(PATIENCE_S):
            while not broker.store.writer.waiting:  # noqa: ASYNC110 - it sets no event
                await asyncio.sleep(0)
        go_on.set()
        await sending
        assert await deleting == (0 if is_half else 1)
        assert (broker.pending.count, broker.half_messages.open()) == (
            0,
            [],
        )


async def test_a_reset_of_everything_forgets_the_offsets_of_deleted_groups() -> None:
    async with running_broker() as broker:
        await send(broker, queue=0)
        await acknowledge(broker, await receive(broker))
        await broker.consuming_groups.delete(GROUP, clean_offsets=False)
        await broker.reset.all()
        group = await broker.consuming_groups.for_use(GROUP)
        assert group.queues == {}


async def test_deleting_a_topic_takes_the_offsets_of_deleted_groups_with_it() -> None:
    async with running_broker() as broker:
        await send(broker, queue=0)
        await acknowledge(broker, await receive(broker))
        await broker.consuming_groups.delete(GROUP, clean_offsets=False)
        await broker.reset.delete_topic(TOPIC)
        assert (await broker.consuming_groups.for_use(GROUP)).queues == {}


@pytest.mark.parametrize(
    ("group", "error"), [("nobody", GroupNotFoundError), ("CID_RMQ_SYS_HALF", NoPermissionError)]
)
async def test_undeletable_groups_are_refused(group: str, error: type[Exception]) -> None:
    async with running_broker() as broker:
        with pytest.raises(error):
            await broker.consuming_groups.delete(group, clean_offsets=True)


async def test_topic_changed_during_its_deletion_can_be_recreated(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker)
        await asyncio.gather(broker.reset.delete_topic(TOPIC), broker.registry.topics.put(TOPIC, 9, 9, 6))
        assert broker.registry.topics.find_topic(TOPIC) is None
        topic = await broker.registry.topics.put(TOPIC, 12, 12, 6)
        assert [queue.queue_id for queue in topic.queues] == list(range(12))
    async with running_broker(tmp_path) as broker:
        assert len(broker.registry.topics.get(TOPIC).queues) == 12
