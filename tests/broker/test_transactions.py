"""Transactions: half messages are seen by nobody but their producers, and decided exactly once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.receipts import Settled, Taken
from mocketmq.broker.consuming.selection import Choice
from mocketmq.broker.transactions.popped_halves import LIFETIME_US, Prepared
from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.errors import (
    EmulatorError,
    IllegalMessageError,
    InvalidArgumentError,
    MessageNotFoundError,
    NoPermissionError,
    ReceiptError,
    ReceiptSpentError,
    StoreBusyError,
    StoreUnavailableError,
    TopicNotFoundError,
    UndecidableError,
    WrongQueueError,
)
from mocketmq.message.message import Draft, Message, StoredMessage
from mocketmq.message.message_id import offset_message_id
from mocketmq.message.names import HALF_GROUP, half_topic
from mocketmq.message.properties import (
    DELAY,
    HALF_DUE_US,
    START_DELIVER_TIME,
    TIMER_DELAY_MS,
    decode_properties,
)
from mocketmq.store import writer
from mocketmq.store.queues import Queue
from mocketmq.store.writer import Work

from tests.support.brokers import (
    DELAYS_US,
    GROUP,
    TOPIC,
    S,
    acknowledge,
    bodies,
    receive,
    rows,
    running_broker,
    send,
    visible,
)

HALF = half_topic(TOPIC)
IMMUNITY_US = 20 * S

Decide = Callable[[Broker, Sequence[Prepared | Taken]], Awaitable[Settled]]


async def prepare(broker: Broker, body: str = "half", **how: Any) -> Prepared:
    """Prepare one message for the topic; what is not a field of Message is a property."""
    fields = {name: how.pop(name) for name in ("topic", "queue_id", "born_us") if name in how}
    message = Message(**{"topic": TOPIC, **fields}, body=body.encode(), properties=how)
    return await broker.popped_halves.prepare(message, IMMUNITY_US)


async def pop(broker: Broker, limit: int = 100, *, topic: str = TOPIC, wait_s: float = 0.0) -> list[Taken]:
    return await broker.popped_halves.pop(topic, max_messages=limit, wait_s=wait_s)


async def commit(broker: Broker, halves: Sequence[Prepared | Taken]) -> Settled:
    return await broker.popped_halves.commit(TOPIC, [half.handle for half in halves])


async def rollback(broker: Broker, halves: Sequence[Prepared | Taken]) -> Settled:
    return await broker.popped_halves.rollback(TOPIC, [half.handle for half in halves])


# Decisions


async def test_a_half_message_is_seen_by_no_consumer_until_it_is_committed() -> None:
    async with running_broker() as broker:
        half = await prepare(broker, queue_id=2, born_us=17, TAGS="A", KEYS="k", own="mine")
        assert (half.visible_us, broker.transactions.prepared) == (broker.clock.now_us() + IMMUNITY_US, 1)
        assert (await receive(broker), await visible(broker), broker.pending.count) == ([], [], 0)
        receiver = asyncio.create_task(receive(broker, wait_s=20, tags="A"))
        assert (await commit(broker, [half])).done == [half.handle]
        [taken] = await receiver
        [message] = await visible(broker)
        assert (message, broker.topics.queue(message.queue_key).queue_id) == (taken.message, 2)
        assert (message.body, message.born_us, message.unique_key, message.properties) == (
            b"half",
            17,
            half.stored.unique_key,
            half.stored.properties,
        )
        assert broker.transactions.committed == 1
        assert (await acknowledge(broker, [taken])).done


async def test_what_is_rolled_back_is_never_seen() -> None:
    async with running_broker() as broker:
        half = await prepare(broker)
        assert (await rollback(broker, [half])).done == [half.handle]
        assert broker.transactions.rolled_back == 1
        await broker.advance_clock(2 * LIFETIME_US)
        assert (await pop(broker), await visible(broker), broker.transactions.abandoned) == ([], [], 0)


@pytest.mark.parametrize("first", [commit, rollback])
@pytest.mark.parametrize("second", [commit, rollback])
async def test_a_half_message_is_decided_once(first: Decide, second: Decide) -> None:
    async with running_broker() as broker:
        half = await prepare(broker)
        one, other = await asyncio.gather(first(broker, [half, half]), second(broker, [half]))
        again = await second(broker, [half])
        assert [one.done, other.done, again.done] in ([[half.handle], [], []], [[], [half.handle], []])
        for _, error in (*one.failed, *other.failed, *again.failed):
            assert isinstance(error, ReceiptSpentError)
        committed = broker.transactions.committed
        assert len(await visible(broker)) == committed == 1 - broker.transactions.rolled_back


@pytest.mark.parametrize("decide", [commit, rollback])
async def test_handles_that_are_not_valid_fail_beside_those_that_are(decide: Decide) -> None:
    async with running_broker() as broker:
        await send(broker)
        [other_kind] = await receive(broker)
        half, elsewhere = await prepare(broker), await prepare(broker, topic="other")
        nonsense = half._replace(handle="nonsense")
        halves: list[Prepared | Taken] = [nonsense, other_kind, elsewhere, half]
        settled = await decide(broker, halves)
        assert settled.done == [half.handle]
        assert [handle for handle, _ in settled.failed] == ["nonsense", other_kind.handle, elsewhere.handle]
        assert {type(error) for _, error in settled.failed} == {ReceiptError}
        assert await visible(broker, "other") == []


async def test_a_handle_is_worth_nothing_where_there_never_was_a_half_message() -> None:
    async with running_broker() as broker:
        settled = await broker.popped_halves.commit("nowhere", ["1-0-2-3"])
        assert [handle for handle, _ in settled.failed] == ["1-0-2-3"]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"body": "x" * 5_000_000}, IllegalMessageError),
        ({"filler": "x" * 40_000}, IllegalMessageError),
        ({"topic": "a b"}, InvalidArgumentError),
        ({"topic": "unknown"}, TopicNotFoundError),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, NoPermissionError),
        ({"queue_id": 99}, WrongQueueError),
        ({START_DELIVER_TIME: "soon"}, IllegalMessageError),
        ({HALF_DUE_US: "1"}, IllegalMessageError),
    ],
)
async def test_what_is_wrong_with_a_half_message_is_said_at_once(
    wrong: dict[str, Any], error: type[EmulatorError]
) -> None:
    async with running_broker(auto_create_topics=False) as broker:
        await broker.topics.put_by_client(TOPIC, 4, 4, 6)
        with pytest.raises(error):
            await prepare(broker, **wrong)
        await broker.advance_clock(IMMUNITY_US)
        assert await pop(broker) == []


# Checks


async def test_the_producer_is_asked_when_the_immunity_time_is_up_and_not_before() -> None:
    async with running_broker() as broker:
        first = await prepare(broker, "0")
        await broker.advance_clock(1)
        await prepare(broker, "1")
        await broker.advance_clock(IMMUNITY_US - 2)
        assert await pop(broker) == []
        await broker.advance_clock(1)
        [asked] = await pop(broker)
        assert (asked.message, asked.topic, asked.times) == (first.stored, TOPIC, 1)
        assert asked.visible_us == broker.clock.now_us() + 10 * S
        [(_, error)] = (await commit(broker, [first])).failed
        assert isinstance(error, ReceiptSpentError)
        assert (await commit(broker, [asked])).done == [asked.handle]
        assert bodies(await visible(broker)) == ["0"]


async def test_a_producer_that_waits_is_woken_when_it_is_to_decide() -> None:
    async with running_broker() as broker:
        waiting = asyncio.create_task(pop(broker, wait_s=20))
        await prepare(broker)
        await broker.advance_clock(IMMUNITY_US)
        async with asyncio.timeout(5):
            assert bodies(await waiting) == ["half"]


async def test_the_producer_is_asked_every_ten_seconds_however_often_it_takes() -> None:
    async with running_broker() as broker:
        half = await prepare(broker)
        await broker.advance_clock(IMMUNITY_US)
        for times in range(1, 41):
            [asked] = await pop(broker)
            assert asked.times == times
            await broker.advance_clock(10 * S - 1)
            assert await pop(broker) == []
            await broker.advance_clock(1)
        assert broker.topics.find(f"%DLQ%{HALF_GROUP}") is None
        await commit(broker, await pop(broker))
        assert [message.unique_key for message in await visible(broker)] == [half.stored.unique_key]


async def test_half_messages_are_popped_oldest_first_by_topic_and_by_tag() -> None:
    async with running_broker() as broker:
        for n in range(4):
            await prepare(broker, str(n), TAGS="AB"[n % 2], queue_id=3 - n)
        await prepare(broker, "other", topic="other")
        await broker.advance_clock(IMMUNITY_US)
        assert bodies(await pop(broker, 1)) == ["0"]
        assert bodies(await pop(broker)) == ["1", "2", "3"]
        assert bodies(await pop(broker, topic="other")) == ["other"]


async def test_a_pop_whose_producer_went_away_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker() as broker:
        await prepare(broker)
        await broker.advance_clock(IMMUNITY_US)
        writing = asyncio.Event()
        write = broker.writer.commit

        async def watched(work: Work) -> object:
            writing.set()
            return await write(work)

        monkeypatch.setattr(broker.writer, "commit", watched)
        waiting = asyncio.create_task(pop(broker, wait_s=20))
        await writing.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert [one.times for one in await pop(broker, wait_s=20)] == [1]


async def test_what_nobody_decides_is_rolled_back_after_a_day() -> None:
    async with running_broker() as broker:
        started_us = broker.clock.now_us()
        lazy = await prepare(broker, "never popped")
        await broker.advance_clock(LIFETIME_US - 1)
        younger = await prepare(broker, "younger")
        [popped] = await pop(broker)
        assert popped.message == lazy.stored
        await broker.advance_clock(1)
        assert (broker.transactions.abandoned, broker.popped_halves.next_due_us()) == (
            0,
            started_us + 2 * LIFETIME_US - 1,
        )
        await broker.advance_clock(10 * S)
        assert (broker.transactions.abandoned, broker.transactions.rolled_back) == (1, 0)
        assert (await commit(broker, [popped])).failed
        await broker.advance_clock(LIFETIME_US)
        assert (broker.transactions.abandoned, broker.popped_halves.next_due_us()) == (2, None)
        assert (await pop(broker), await visible(broker)) == ([], [])
        for half, settled_us in (
            (lazy, started_us + LIFETIME_US + 10 * S - 1),
            (younger, started_us + 2 * LIFETIME_US - 1),
        ):
            [take] = (await broker.lives.life(half.stored.unique_key)).takes
            assert (take.outcome, take.settled_us) == ("rolled back", settled_us)


async def test_a_handle_that_is_still_valid_decides_even_after_a_day() -> None:
    async with running_broker() as broker:
        await prepare(broker)
        await broker.advance_clock(LIFETIME_US - 1)
        popped = await pop(broker)
        await broker.advance_clock(10 * S - 1)
        assert (await commit(broker, popped)).done
        assert bodies(await visible(broker)) == ["half"]


async def test_very_many_that_nobody_decides_go_in_steps_past_those_that_are_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mocketmq.broker.transactions.popped_halves.EXPIRY_BATCH", 3)
    async with running_broker() as broker:
        for _ in range(13):
            await prepare(broker)
        await broker.advance_clock(LIFETIME_US - 1)
        held = await pop(broker, 3)
        before = broker.writer.commits
        async with asyncio.timeout(10):
            await broker.advance_clock(1)
        assert (broker.transactions.abandoned, broker.writer.commits - before) == (10, 4 + 1)
        assert (await commit(broker, held)).failed == []


# Delays


@pytest.mark.parametrize("level", [2, 5])
async def test_a_delay_level_counts_from_the_commit(level: int) -> None:
    async with running_broker() as broker:
        half = await prepare(broker, queue_id=3, **{DELAY: str(level)})
        await broker.advance_clock(7 * S)
        assert (broker.pending.count, await visible(broker)) == (0, [])
        await commit(broker, [half])
        assert (broker.pending.count, await visible(broker)) == (1, [])
        moved = await broker.move_clock_to_next()
        assert moved.now_us - moved.from_us == DELAYS_US[level - 1]
        [message] = await visible(broker)
        assert broker.topics.queue(message.queue_key).queue_id == 3


async def test_an_absolute_due_time_is_the_same_whenever_it_is_committed(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        started_us = broker.clock.now_us()
        half = await prepare(broker, queue_id=3, own="mine", **{TIMER_DELAY_MS: "15000"})
        await broker.advance_clock(7 * S)
        assert (broker.pending.count, await visible(broker)) == (0, [])
        assert (await commit(broker, [half])).done
        assert (broker.pending.count, await visible(broker)) == (1, [])
        assert (await broker.move_clock_to_next()).now_us == started_us + 15 * S
        [message] = await visible(broker)
        properties = decode_properties(message.properties)
        assert (properties["own"], HALF_DUE_US in properties) == ("mine", False)
        assert broker.topics.queue(message.queue_key).queue_id == 3
    [row] = rows(tmp_path, "SELECT due_us, delivered_us FROM deliveries")
    assert row == {"due_us": started_us + 15 * S, "delivered_us": started_us + 15 * S}


async def test_what_is_committed_after_its_due_time_is_visible_at_once_and_not_late(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        half = await prepare(broker, **{TIMER_DELAY_MS: "5000"})
        await broker.advance_clock(7 * S + 123)
        await commit(broker, [half])
        assert bodies(await receive(broker, wait_s=20)) == ["half"]
    [row] = rows(tmp_path, "SELECT delivered_us - due_us AS late_us FROM deliveries")
    assert row == {"late_us": 123}  # due times are whole milliseconds


async def test_a_start_deliver_time_is_one_of_those() -> None:
    async with running_broker() as broker:
        due_ms = wall_us() // US_PER_MS + 3_600_000
        half = await prepare(broker, **{START_DELIVER_TIME: str(due_ms)})
        await broker.advance_clock(7 * S)
        await commit(broker, [half])
        [pending] = await broker.pending.list()
        assert pending.message.due_us is not None
        assert pending.message.unique_key == half.stored.unique_key
        assert abs(pending.message.due_us - half.stored.store_us - 3_600 * S) < 60 * S


# What goes wrong


class Refusing:
    """A store that takes everything but the next writes."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._database = broker.transactions._database

    async def __aenter__(self) -> None:
        async def refuse(_: object) -> None:
            raise StoreUnavailableError("no")

        self._monkeypatch.setattr(self._database, "transact", refuse)

    async def __aexit__(self, *_: object) -> None:
        self._monkeypatch.undo()


async def test_a_half_message_that_could_not_be_stored_does_not_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await rollback(broker, [await prepare(broker, "first")])
        async with Refusing(broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await prepare(broker)
        await prepare(broker, "next")
        await broker.advance_clock(IMMUNITY_US)
        assert bodies(await pop(broker)) == ["next"]


@pytest.mark.parametrize("decide", [commit, rollback])
async def test_a_decision_that_could_not_be_stored_is_none(
    decide: Decide, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker() as broker:
        half = await prepare(broker)
        async with Refusing(broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await decide(broker, [half])
        assert await visible(broker) == []
        await broker.advance_clock(IMMUNITY_US)
        [asked] = await pop(broker)
        assert (await commit(broker, [asked])).done
        assert bodies(await visible(broker)) == ["half"]


async def test_what_could_not_be_rolled_back_after_a_day_is_when_it_can_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await prepare(broker)
        await broker.advance_clock(LIFETIME_US - 1)
        async with Refusing(broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await broker.advance_clock(1)
        assert broker.transactions.abandoned == 0
        await broker.advance_clock(1)
        assert (broker.transactions.abandoned, await pop(broker)) == (1, [])


async def test_each_decision_is_one_transaction() -> None:
    async with running_broker() as broker:
        await prepare(broker)
        for count in (1, 2, 3):
            before = broker.writer.commits
            halves = [await prepare(broker) for _ in range(count)]
            assert broker.writer.commits == before + count
            await commit(broker, halves)
            assert broker.writer.commits == before + count + 1


async def test_half_messages_survive_a_restart_as_they_were(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        kept = await prepare(broker, "kept")
        await broker.advance_clock(1)
        asked, gone = await prepare(broker, "asked"), await prepare(broker, "gone")
        await rollback(broker, [gone])
    async with running_broker(tmp_path) as broker:
        assert (await pop(broker), await visible(broker)) == ([], [])
        assert broker.popped_halves.next_due_us() == kept.stored.store_us + LIFETIME_US
        assert (await commit(broker, [kept])).done
        await prepare(broker, "new")
        assert (await rollback(broker, [gone])).failed
    async with running_broker(tmp_path) as broker:
        await broker.advance_clock(IMMUNITY_US)
        assert bodies(await visible(broker)) == ["kept"]
        popped = await pop(broker)
        assert bodies(popped) == ["asked", "new"]
        assert (await commit(broker, [asked])).failed
    async with running_broker(tmp_path) as broker:
        assert (await commit(broker, popped[:1])).done
        assert bodies(await visible(broker)) == ["kept", "asked"]
        await broker.advance_clock(LIFETIME_US)
        assert (broker.transactions.abandoned, await pop(broker)) == (1, [])


async def test_half_and_take_are_stored_in_one_transaction(tmp_path: Path) -> None:
    """So a kill leaves both or none: a half message without its take would be popped at once."""
    async with running_broker(tmp_path) as broker:
        await prepare(broker)
        seen: list[set[str]] = []
        transact = broker.transactions._database.transact

        async def watch(statements: Any) -> None:
            seen.append({sql.split()[2] for sql, added in statements.items() if added})
            await transact(statements)

        broker.transactions._database.transact = watch  # type: ignore[method-assign]
        half = await prepare(broker)
        await commit(broker, [half])
    assert seen[:2] == [{"messages", "takes", "progress"}, {"messages", "SET"}]


@pytest.mark.parametrize("comes_first", ["due time", "second commit"])
async def test_a_store_that_fails_between_keeping_a_message_and_settling_its_half_doubles_nothing(
    monkeypatch: pytest.MonkeyPatch, comes_first: str
) -> None:
    async with running_broker() as broker:
        half = await prepare(broker, **{TIMER_DELAY_MS: "60000"})
        async with Refusing(broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await commit(broker, [half])
        assert (broker.pending.count, await visible(broker)) == (1, [])
        await broker.advance_clock(60 * S if comes_first == "due time" else IMMUNITY_US)
        assert len(await visible(broker)) == (comes_first == "due time")
        assert (await commit(broker, await pop(broker))).done
        await broker.advance_clock(60 * S)
        assert (bodies(await visible(broker)), await pop(broker)) == (["half"], [])
        assert broker.pending.count == 0


@pytest.mark.parametrize("is_due", [False, True])
async def test_a_kill_between_keeping_a_message_and_settling_its_half_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_due: bool
) -> None:
    async with running_broker(tmp_path) as broker:
        half = await prepare(broker, **{TIMER_DELAY_MS: "60000"})
        async with Refusing(broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await commit(broker, [half])
        if is_due:
            await broker.advance_clock(60 * S)
    async with running_broker(tmp_path) as broker:
        assert broker.pending.count == (not is_due)
        assert broker.transactions.open() == []
        await broker.advance_clock(60 * S)
        assert (bodies(await visible(broker)), await pop(broker)) == (["half"], [])
    assert rows(tmp_path, "SELECT outcome FROM takes") == [{"outcome": "committed"}]


@pytest.mark.parametrize("is_checked", [True, False])
async def test_what_is_kept_although_the_store_failed_then_is_committed_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, is_checked: bool
) -> None:
    async with running_broker() as broker:
        if is_checked:
            message = Message(TOPIC, b"half", {TIMER_DELAY_MS: "60000"})
            half = (await broker.transactions.prepare_checked(message, "makers")).stored
        else:
            half = (await prepare(broker, **{TIMER_DELAY_MS: "60000"})).stored
        message_id = offset_message_id(half.store_host, half.commit_offset)
        async with Refusing(broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await broker.transactions.decide(message_id, commit=True)
        with pytest.raises(UndecidableError):
            await broker.transactions.decide(message_id, commit=False)
        await broker.advance_clock(IMMUNITY_US)
        assert len((await rollback(broker, await pop(broker))).failed) == (not is_checked)
        await broker.advance_clock(LIFETIME_US)
        counts = broker.transactions
        assert (counts.open(), counts.committed, counts.rolled_back, counts.abandoned) == ([], 1, 0, 0)
        assert bodies(await visible(broker)) == ["half"]


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("comes_first", ["pop", "decision"])
async def test_what_is_popped_while_it_is_decided_by_its_id_is_one_of_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes_first: str, is_commit: bool
) -> None:
    async with running_broker(tmp_path) as broker:
        half = (await prepare(broker)).stored
        await broker.advance_clock(IMMUNITY_US)
        database = broker.transactions._database
        transact, begun, go = database.transact, asyncio.Event(), asyncio.Event()

        async def held_up(statements: Any) -> None:
            begun.set()
            await go.wait()
            await transact(statements)

        monkeypatch.setattr(database, "transact", held_up)
        message_id = offset_message_id(half.store_host, half.commit_offset)
        steps: list[Awaitable[object]] = [
            pop(broker),
            broker.transactions.decide(message_id, commit=is_commit),
        ]
        before = asyncio.create_task(send(broker, topic="another"))  # the two share the next transaction
        await begun.wait()
        tasks = []
        for step in steps if comes_first == "pop" else reversed(steps):
            tasks.append(asyncio.ensure_future(step))
            while not tasks[-1].done() and broker.writer.waiting < len(tasks):  # noqa: ASYNC110
                await asyncio.sleep(0)
        go.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        popped, decided = results if comes_first == "pop" else reversed(results)
        assert bool(popped) is isinstance(decided, UndecidableError)
        await before
        assert len(broker.transactions.open()) == bool(popped)
    assert len(rows(tmp_path, "SELECT * FROM takes WHERE settled_us IS NULL")) == bool(popped)


async def test_what_the_timed_scheme_did_not_keep_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker() as broker:
        halves = [await prepare(broker), await prepare(broker, **{TIMER_DELAY_MS: "60000"})]

        async def refuse(*_: object) -> StoredMessage:
            raise StoreUnavailableError("no")

        with monkeypatch.context() as patched:
            patched.setattr(broker.timed, "keep", refuse)
            with pytest.raises(StoreUnavailableError):
                await commit(broker, halves)
        assert (await visible(broker), broker.pending.count) == ([], 0)
        await broker.advance_clock(IMMUNITY_US)
        assert len((await commit(broker, await pop(broker))).done) == 2
        assert (len(await visible(broker)), broker.pending.count) == (1, 1)


async def test_what_is_popped_just_before_it_is_rolled_back_after_a_day_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await prepare(broker)
        await broker.advance_clock(LIFETIME_US - 1)
        popped: list[Taken] = []
        write = broker.writer.commit

        async def after_a_pop(work: Work) -> object:
            monkeypatch.undo()
            popped.extend(await pop(broker))
            return await write(work)

        monkeypatch.setattr(broker.writer, "commit", after_a_pop)
        await broker.advance_clock(1)
        assert broker.transactions.abandoned == 0
        assert (await commit(broker, popped)).done
        assert bodies(await visible(broker)) == ["half"]


@pytest.mark.parametrize("is_refused", [True, False])
async def test_what_is_popped_while_it_is_rolled_back_after_a_day_is_gone_unless_that_fails(
    monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    async with running_broker() as broker:
        database = broker.transactions._database
        transact, make, has_chosen = database.transact, Choice.make, asyncio.Event()
        await prepare(broker)
        await broker.advance_clock(LIFETIME_US - 1)
        popping: list[asyncio.Task[list[Taken]]] = []

        async def watched(choice: Choice) -> None:
            await make(choice)
            has_chosen.set()

        async def pop_meanwhile(statements: Any) -> None:
            monkeypatch.setattr(database, "transact", transact)
            popping.append(asyncio.create_task(pop(broker)))
            await has_chosen.wait()
            if is_refused:
                raise StoreUnavailableError("no")
            await transact(statements)

        monkeypatch.setattr(Choice, "make", watched)
        monkeypatch.setattr(database, "transact", pop_meanwhile)
        await asyncio.gather(broker.advance_clock(1), return_exceptions=True)
        popped = await popping[0]
        assert (len(popped), broker.transactions.abandoned) == ((1, 0) if is_refused else (0, 1))
        assert len((await commit(broker, popped)).done) == len(await visible(broker)) == len(popped)


async def test_what_is_being_committed_neither_runs_out_nor_is_rolled_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        half = await prepare(broker, **{TIMER_DELAY_MS: "60000"})
        keep = broker.timed.keep

        async def keep_slowly(
            draft: Draft, queue: Queue, due_us: int, number: int | None = None
        ) -> StoredMessage:
            await broker.advance_clock(IMMUNITY_US)
            assert await pop(broker) == []
            assert (await rollback(broker, [half])).failed
            return await keep(draft, queue, due_us, number)

        monkeypatch.setattr(broker.timed, "keep", keep_slowly)
        assert (await commit(broker, [half])).done == [half.handle]
        await broker.advance_clock(60 * S)
        assert (bodies(await visible(broker)), await pop(broker)) == (["half"], [])


async def test_what_is_committed_while_its_topic_is_being_deleted_is_not_kept() -> None:
    async with running_broker() as broker:
        half = await prepare(broker, **{TIMER_DELAY_MS: "60000"})
        with broker.topics.closing(TOPIC), pytest.raises(TopicNotFoundError):
            await commit(broker, [half])
        assert (broker.pending.count, len((await rollback(broker, [half])).done)) == (0, 1)


async def test_a_commit_goes_to_its_end_though_nobody_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker() as broker:
        half = (await prepare(broker, **{TIMER_DELAY_MS: "60000"})).stored
        message_id = offset_message_id(half.store_host, half.commit_offset)
        keep, kept, go = broker.timed.keep, asyncio.Event(), asyncio.Event()

        async def keep_and_wait(
            draft: Draft, queue: Queue, due_us: int, number: int | None = None
        ) -> StoredMessage:
            parked = await keep(draft, queue, due_us, number)
            kept.set()
            await go.wait()
            return parked

        monkeypatch.setattr(broker.timed, "keep", keep_and_wait)
        deciding = asyncio.create_task(broker.transactions.decide(message_id, commit=True))
        await kept.wait()
        deciding.cancel()
        await asyncio.gather(deciding, return_exceptions=True)
        with pytest.raises(MessageNotFoundError):
            await broker.transactions.decide(message_id, commit=False)
        go.set()
        async with asyncio.timeout(10):
            while not broker.transactions.committed:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await broker.advance_clock(60 * S)
        assert bodies(await visible(broker)) == ["half"]


async def test_what_could_neither_be_popped_nor_committed_can_be_popped_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        half = (await prepare(broker)).stored
        message_id = offset_message_id(half.store_host, half.commit_offset)
        await broker.advance_clock(IMMUNITY_US)
        with monkeypatch.context() as patched:
            patched.setattr(writer, "MAX_WAITING", 0)
            with pytest.raises(StoreBusyError):
                await pop(broker)
            with pytest.raises(StoreBusyError):
                await broker.transactions.decide(message_id, commit=True)
        assert len(await pop(broker, wait_s=20)) == 1


async def test_what_is_reset_while_it_is_being_committed_is_not_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        half = await prepare(broker)
        write = broker.writer.commit

        async def after_a_reset(work: Work) -> object:
            monkeypatch.undo()
            await broker.reset.all()
            return await write(work)

        monkeypatch.setattr(broker.writer, "commit", after_a_reset)
        [(handle, error)] = (await commit(broker, [half])).failed
        assert (handle, type(error), await visible(broker)) == (half.handle, ReceiptSpentError, [])


async def test_what_loses_its_topic_while_it_is_being_kept_is_kept_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        half = await prepare(broker, **{TIMER_DELAY_MS: "60000"})
        keep = broker.timed.keep

        async def keep_after_all(
            draft: Draft, queue: Queue, due_us: int, number: int | None = None
        ) -> StoredMessage:
            await broker.reset.delete_topic(TOPIC)
            return await keep(draft, queue, due_us, number)

        monkeypatch.setattr(broker.timed, "keep", keep_after_all)
        assert (await commit(broker, [half])).done == []
        await broker.advance_clock(60 * S)
        assert (broker.pending.count, broker.topics.find(TOPIC)) == (0, None)


# What clients may not do


async def test_no_client_uses_the_topics_of_half_messages(tmp_path: Path) -> None:
    for _ in range(2):
        async with running_broker(tmp_path) as broker:
            for topic in (HALF, half_topic("nothing-there")):
                with pytest.raises(NoPermissionError):
                    await send(broker, topic=topic)
                with pytest.raises(NoPermissionError):
                    await prepare(broker, topic=topic)
                with pytest.raises(NoPermissionError):
                    await receive(broker, topic=topic)
                with pytest.raises(NoPermissionError):
                    await broker.pull.pull(GROUP, topic, 0, 0, 1)
                with pytest.raises(NoPermissionError):
                    await pop(broker, topic=topic)
                with pytest.raises(NoPermissionError):
                    await broker.topics.put_by_client(topic, 4, 4, 6)
            await prepare(broker)
            assert broker.topics.get(HALF).is_system
            assert bodies(await visible(broker, HALF))[0] == "half"


async def test_no_client_uses_the_group_of_half_messages() -> None:
    async with running_broker() as broker:
        await send(broker)
        half = await prepare(broker)
        receipts = broker.receipts
        for step in (
            receive(broker, group=HALF_GROUP),
            broker.pull.pull(HALF_GROUP, TOPIC, 0, 0, 1),
            broker.pull.commit_offset(HALF_GROUP, HALF, 0, 1),
            receipts.acknowledge(HALF_GROUP, [half.handle]),
            receipts.give_back(HALF_GROUP, [half.handle]),
            receipts.extend(HALF_GROUP, [half.handle], 1),
            receipts.release(HALF_GROUP, []),
        ):
            with pytest.raises(NoPermissionError):
                await step
        assert (await commit(broker, [half])).done


@pytest.mark.parametrize("topic", ["t" * 127, "%RETRY%" + "g" * 255])
async def test_the_longest_topic_has_half_messages_too(topic: str) -> None:
    async with running_broker() as broker:
        half = await prepare(broker, topic=topic)
        assert (await broker.popped_halves.commit(topic, [half.handle])).done
        assert bodies(await visible(broker, topic)) == ["half"]


# Resets


@pytest.mark.parametrize("is_all", [True, False])
async def test_a_reset_forgets_half_messages(tmp_path: Path, is_all: bool) -> None:
    async with running_broker(tmp_path) as broker:
        half = await prepare(broker)
        await (broker.reset.all() if is_all else broker.reset.topic(TOPIC))
        assert (await commit(broker, [half])).failed
        await prepare(broker, "after")
    async with running_broker(tmp_path) as broker:
        await broker.advance_clock(IMMUNITY_US)
        popped = await pop(broker)
        assert bodies(popped) == ["after"]
        await commit(broker, popped)
        assert bodies(await visible(broker)) == ["after"]
