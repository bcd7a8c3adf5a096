"""Every feature of the broker works with a delay scheme that only the app's list mentions."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mocketmq import app
from mocketmq.errors import NotPendingError
from mocketmq.message.message import Draft, Message, StoredMessage
from mocketmq.message.message_id import key_hash
from mocketmq.message.properties import DELAY
from mocketmq.schedule.scheme import ALL_PENDING, PendingFilter, SchemeContext
from mocketmq.schedule.timed_scheme import NewestPage, TimedScheme
from mocketmq.schedule.timer import Due, DueNow
from mocketmq.settings import Settings
from mocketmq.store.batch import Batch
from mocketmq.store.messages import NO_LIMIT, until_bytes
from mocketmq.store.queue import Queue
from tests.support.api import Api, metrics_of, running_api
from tests.support.brokers import TOPIC, S, bodies, rows, running_broker, send, visible
from tests.support.second_directories import MS, send_in

EGG_TIMER_MS = "EGG_TIMER_MS"


class EggTimer(TimedScheme):
    """Keeps messages with the property ``EGG_TIMER_MS`` in a dictionary."""

    name = "egg-timer"
    due_properties = frozenset({EGG_TIMER_MS})

    def __init__(self, context: SchemeContext) -> None:
        super().__init__(context)
        self.waiting: dict[int, StoredMessage] = {}

    def due_us(self, properties: dict[str, str], level: int) -> int | None:
        text = properties.get(EGG_TIMER_MS)
        return None if level or text is None else self.context.store.clock.now_us() + int(text) * MS

    async def keep(self, draft: Draft, queue: Queue, due_us: int, number: int | None = None) -> StoredMessage:
        number = self.context.numbers.next() if number is None else number
        clock, writer = self.context.store.clock, self.context.store.writer
        kept = self.kept(draft, queue, due_us, number, clock.now_us(), writer.store_host)
        if not await self.has_kept(number, draft.unique_key):
            self.waiting[number] = kept
            self.context.changed()
        return kept

    async def has_kept(self, number: int, unique_key: str) -> bool:
        return number in self.waiting or (number, key_hash(unique_key)) in await self.settled([number])

    def remove_settled(self, messages: Iterable[StoredMessage]) -> None:
        for message in messages:
            self.waiting.pop(message.log_offset, None)

    def clear(self, batch: Batch) -> None:
        for number, message in self.waiting.items():
            self.settle(batch, (number, key_hash(message.unique_key)), due_of(message) // MS, "cleared")
        batch.on_commit(self.waiting.clear)

    @property
    def pending(self) -> int:
        return len(self.waiting)

    def first_due_us(self) -> int | None:
        return min(map(due_of, self.waiting.values()), default=None)

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        picked_us = self.context.store.clock.now_us()

        def due_now() -> Iterator[Due]:
            for message in sorted((m for m in self.waiting.values() if due_of(m) <= until_us), key=due_of):
                yield Due(due_of(message), partial(self.boiled, message, picked_us), delivers=1)

        yield due_now

    def boiled(self, message: StoredMessage, picked_us: int, batch: Batch) -> None:
        self.deliver(batch, message, fires_us=due_of(message), picked_us=picked_us)
        batch.on_commit(partial(self.remove_settled, [message]))

    def holds(self, parked: StoredMessage) -> bool:
        return parked.log_offset in self.waiting

    async def find_by_key(self, unique_key: str, max_bytes: int = NO_LIMIT) -> list[StoredMessage]:
        found = [message for message in self.waiting.values() if message.unique_key == unique_key]
        return found if max_bytes else found[-1:]

    async def numbered(self, number: int) -> StoredMessage | None:
        return self.waiting.get(number)

    async def page(
        self, after: int, limit: int, which: PendingFilter = ALL_PENDING, max_bytes: int = NO_LIMIT
    ) -> list[StoredMessage]:
        keys = {queue.key for queue in self.context.topics.get(which.topic).queues} if which.topic else None
        found = [m for m in self.waiting.values() if keys is None or m.real_queue_key in keys]
        after_it = [m for m in found if which.level is None and m.log_offset > after]
        return until_bytes(after_it[:limit], max_bytes, lambda one: len(one.body))

    async def newest(self, before: int, limit: int) -> NewestPage:
        earlier = sorted(
            (m for m in self.waiting.values() if m.log_offset < before), key=lambda m: -m.log_offset
        )
        return NewestPage(earlier[:limit], earlier[limit - 1].log_offset if len(earlier) >= limit else None)

    async def first_due(self, limit: int) -> list[StoredMessage]:
        return sorted(self.waiting.values(), key=due_of)[:limit]


def due_of(message: StoredMessage) -> int:
    assert message.due_us is not None
    return message.due_us


async def open_egg_timer(_settings: Settings, context: SchemeContext) -> TimedScheme:
    return EggTimer(context)


@pytest.fixture(autouse=True)
def plugged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the scheme, which takes one line."""
    monkeypatch.setattr(app, "DELAY_SCHEMES", (*app.DELAY_SCHEMES, open_egg_timer))


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(data=str(tmp_path), remoting=False) as running:
        yield running


async def boil(api: Api, body: str, delay_ms: int, **more: Any) -> str:
    """Send a message by the third scheme, and return its id."""
    sent = await api.send(body=body, properties={EGG_TIMER_MS: str(delay_ms)}, **more)
    message_id: str = sent["message_id"]
    return message_id


async def listed(api: Api) -> list[tuple[str, int | None]]:
    found = (await api.ok("GET", "/v1/delayed"))["messages"]
    return sorted((one["body"], one["level"]) for one in found)


async def test_third_scheme_is_listed_counted_and_delivered(api: Api, tmp_path: Path) -> None:
    egg = await boil(api, "egg", 2_500)
    await api.send(body="level", delay_level=1)
    await api.send(body="file", delay_ms=4_000)
    await api.send(body="late level", delay_level=2)
    assert await listed(api) == [("egg", None), ("file", None), ("late level", 2), ("level", 1)]
    samples = await metrics_of(api)
    assert samples["pending_messages", "", "egg-timer"] == samples["pending_messages", "1", "levels"] == 1
    assert samples["next_due_seconds", "", "egg-timer"] == 2.5
    other = (await api.ok("GET", "/v1/levels"))["timed"]
    assert (other["pending"], other["parts"]) == (2, 1)

    stops = [await api.ok("POST", "/v1/clock/next") for _ in range(4)]
    start_ms = stops[0]["from_ms"]
    assert [stop["now_ms"] - start_ms for stop in stops] == [1_000, 2_500, 4_000, 5_000]
    assert [each["body"] for each in await api.receive()] == ["level", "egg", "file", "late level"]
    assert (await metrics_of(api))["delivered_delayed_messages_total",] == 4
    delivered = rows(tmp_path, "SELECT * FROM deliveries WHERE scheme = 'egg-timer'")
    assert [(row["unique_key"], row["level"], row["due_us"]) for row in delivered] == [
        (egg, None, (start_ms + 2_500) * MS)
    ]
    assert rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us <> due_us") == []
    [delivery] = (await api.ok("GET", f"/v1/messages/{egg}"))["deliveries"]
    assert delivery["scheme"] == "egg-timer"


async def test_third_scheme_cancels_and_forces_messages(api: Api, tmp_path: Path) -> None:
    cancelled, forced = await boil(api, "cancelled", 1_000), await boil(api, "forced", 1_000)
    assert (await api.ok("DELETE", f"/v1/delayed/{cancelled}"))["body"] == "cancelled"
    assert (await api.ok("POST", f"/v1/delayed/{forced}/deliver"))["body"] == "forced"
    await api.refused(409, "DELETE", f"/v1/delayed/{cancelled}")
    assert await listed(api) == []
    assert (await api.ok("POST", "/v1/clock/advance", {"by": "1m"}))["fired"] == 0
    assert [each["body"] for each in await api.receive()] == ["forced"]
    outcomes = rows(tmp_path, "SELECT outcome FROM timed_messages ORDER BY number")
    assert [row["outcome"] for row in outcomes] == ["cancelled", "forced"]
    records = "interventions i JOIN messages m ON i.parked_offset = m.log_offset"
    kinds = rows(tmp_path, f"SELECT i.kind FROM {records}")
    assert kinds == [{"kind": "cancelled"}]


async def test_resets_and_deletions_cover_the_third_scheme() -> None:
    async with running_broker() as broker:
        for topic in (TOPIC, TOPIC, "another"):
            await send(broker, topic=topic, EGG_TIMER_MS="1000")
            await send_in(broker, 1_000, topic=topic)
            await send(broker, topic=topic, level=1)
        assert await broker.reset.delete_topic(TOPIC) == 6
        assert broker.schemes.pending == 3
        await broker.reset.all()
        assert broker.schemes.pending == 0
        assert (await broker.mover.advance(60 * S)).fired == 0


async def test_committed_half_message_returns_to_its_scheme(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        halves = broker.popped_halves
        half = await halves.prepare(Message(TOPIC, b"half", {EGG_TIMER_MS: "5000"}), 60 * S)
        assert broker.schemes.pending == 0
        assert len((await halves.commit(TOPIC, [half.handle])).done) == 1
        assert broker.schemes.timed("egg-timer").pending == 1
        await broker.mover.advance(5 * S)
        assert bodies(await visible(broker)) == ["half"]
    assert rows(tmp_path, "SELECT scheme FROM deliveries") == [{"scheme": "egg-timer"}]


async def test_failed_batch_is_undone_and_a_level_wins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        egg = {EGG_TIMER_MS: "1000"}

        async def refuse(*_: Any) -> StoredMessage:
            raise NotPendingError("no")

        with monkeypatch.context() as patched:
            patched.setattr(broker.schemes.timed(), "keep", refuse)
            with pytest.raises(NotPendingError):
                await broker.sender.send_batch(
                    [Message(TOPIC, b"egg", {**egg}), Message(TOPIC, b"file", {"TIMER_DELAY_MS": "1000"})]
                )
        assert broker.schemes.pending == 0
        await broker.sender.send(Message(TOPIC, b"level", {**egg, DELAY: "1"}))
        assert (broker.levels.pending, broker.schemes.pending) == (1, 1)


async def test_duplicate_scheme_names_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "DELAY_SCHEMES", (*app.DELAY_SCHEMES, open_egg_timer))
    with pytest.raises(ValueError, match="egg-timer"):
        async with running_broker():
            pass
