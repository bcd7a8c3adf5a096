"""Snapshots under every delay scheme: on disk and in memory, one scheme's in another one, random plays."""

import errno
import os
import random
from pathlib import Path

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.clock import US_PER_MS
from mocketmq.errors import EmulatorError, StoreUnavailableError
from mocketmq.settings import TimedSchemeName
from mocketmq.store.database import MEMORY
from mocketmq_compat.delay.schemes import SCHEMES
from tests.broker.test_checked_halves import prepare
from tests.support.brokers import GROUP, S, bodies, receive, running_broker, send, visible
from tests.support.second_directories import (
    listed,
    message_files,
    no_removal_left,
    refuse,
    scheme_of,
    send_in,
)

OTHERS = {"directories": "wheel", "wheel": "slots", "slots": "sorted", "sorted": "directories"}


@pytest.fixture(params=["disk", "memory"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Storage of the broker."""
    return tmp_path if request.param == "disk" else MEMORY


class Player:
    """Plays random requests, whose results depend on the broker's state and on the seed alone."""

    def __init__(self, broker: Broker, seed: int, handles: list[str]) -> None:
        self._broker = broker
        self._random = random.Random(seed)
        self._handles = [*handles]
        self._number = 0

    @property
    def handles(self) -> list[str]:
        """Handles of messages that were received and not settled."""
        return self._handles

    async def play(self, steps: int) -> list[object]:
        """The results of the steps."""
        return [await self._step() for _ in range(steps)]

    async def _step(self) -> object:
        broker, draw = self._broker, self._random
        self._number += 1
        kind = draw.choice(
            ("send", "level", "timed", "receive", "receive", "ack", "back", "advance", "topic")
        )
        body = f"{kind} {self._number}"
        key = f"{draw.getrandbits(64):016X}"
        try:
            match kind:
                case "send":
                    sent = await send(broker, body, queue=draw.randrange(4), UNIQ_KEY=key)
                    return kind, sent.stored.queue_offset, sent.stored.log_offset, sent.stored.store_us
                case "level":
                    await send(broker, body, queue=0, level=draw.randrange(1, 8), UNIQ_KEY=key)
                case "timed":
                    await send_in(broker, draw.randrange(1, 90_000), body, queue=1, UNIQ_KEY=key)
                case "topic":
                    await send(broker, body, topic=f"topic-{draw.randrange(3)}", queue=0, UNIQ_KEY=key)
                case "receive":
                    taken = await receive(broker, draw.randrange(1, 5))
                    self._handles += [one.handle for one in taken]
                    return kind, sorted(bodies(taken)), sorted(one.times for one in taken)
                case "ack" | "back" if self._handles:
                    handle = self._handles.pop(draw.randrange(len(self._handles)))
                    act = broker.settler.acknowledge if kind == "ack" else broker.settler.give_back
                    settled = await act(GROUP, [handle])
                    return kind, len(settled.failed)
                case "advance":
                    return kind, (await broker.mover.advance(draw.randrange(1, 40) * S)).fired
        except EmulatorError as error:
            return kind, type(error)
        return kind

    async def state(self) -> object:
        """What can be seen of the broker."""
        broker = self._broker
        topics = [topic.name for topic in broker.registry.topics]
        seen = [(one.queue_offset, one.log_offset, one.body) for one in await visible(broker)]
        figures = [(row.scheme, row.level, row.pending) for row in broker.schemes.figures()]
        return topics, seen, broker.pending.count, figures, broker.clock.now_us()


@pytest.mark.parametrize("seed", range(4))
async def test_the_same_play_after_a_restore_has_the_same_results(
    anywhere: Path | str, scheme: TimedSchemeName, seed: int
) -> None:
    async with running_broker(anywhere, timed_scheme=scheme) as broker:
        before = Player(broker, seed, [])
        await before.play(30 + seed)
        await broker.snapshots.save("here")
        saved = await before.state()
        player = Player(broker, -1 - seed, before.handles)
        results, state = await player.play(40), await player.state()
        for _ in range(2):
            await broker.snapshots.restore("here")
            assert await before.state() == saved
            again = Player(broker, -1 - seed, before.handles)
            assert await again.play(40) == results
            assert await again.state() == state
            await Player(broker, seed + 100, []).play(20)
        await broker.snapshots.restore("here")
        assert await broker.snapshots.differences("here", None) == []


async def test_a_restart_finds_the_restored_state(tmp_path: Path, scheme: TimedSchemeName) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await send_in(broker, 60_000, "kept")
        await send_in(broker, 30_000, "delivered")
        await broker.snapshots.save("here")
        await broker.mover.advance(40 * S)
        await send_in(broker, 20_000, "later")
        await broker.snapshots.restore("here")
        now_us = broker.clock.now_us()
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        assert (broker.clock.now_us(), broker.pending.count) == (now_us, 2)
        await broker.mover.advance(3600 * S)
        assert bodies(await visible(broker)) == ["delivered", "kept"]


async def test_another_scheme_takes_over_the_messages_of_a_snapshot(
    tmp_path: Path, scheme: TimedSchemeName
) -> None:
    shelf = str(tmp_path / "shelf")
    async with running_broker(tmp_path / "one", timed_scheme=scheme, snapshots=shelf) as broker:
        await send_in(broker, 60_000, "timed")
        await send(broker, "plain", topic="other")
        await broker.snapshots.save("here")
    async with running_broker(tmp_path / "two", timed_scheme=OTHERS[scheme], snapshots=shelf) as broker:
        await send_in(broker, 60_000, "own")
        for _ in range(3):
            await send(broker, "own")
        await broker.snapshots.restore("here")
        assert (await broker.mover.advance(60 * S)).fired == 1
        assert bodies(await visible(broker)) == ["timed"]
        assert bodies(await visible(broker, "other")) == ["plain"]
        assert bodies(await receive(broker)) == ["timed"]


async def test_a_failed_restore_removes_its_records_once_the_disk_allows_it(
    tmp_path: Path, scheme: TimedSchemeName, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await send_in(broker, 10_000, "early")
        await broker.snapshots.save("here")
        await broker.mover.advance(20 * S)
        await no_removal_left(broker)
        engine = scheme_of(broker)
        with monkeypatch.context() as patch:
            for step in ("sync", "forget"):
                patch.setattr(type(engine.store), step, refuse)
            with pytest.raises(StoreUnavailableError, match=os.strerror(errno.ENOSPC)):
                await broker.snapshots.restore("here")
            await engine.entries.refill()
            assert (broker.schemes.pending, await listed(broker), engine.entries.first()) == (0, [], None)
        await engine.tidy()
        assert engine.store.count == 0
        await broker.snapshots.restore("here")
        assert (await broker.mover.advance(60 * S)).fired == 1
        assert bodies(await visible(broker)) == ["early"]


async def test_a_restore_that_the_store_refuses_changes_nothing(
    tmp_path: Path, scheme: TimedSchemeName, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await send_in(broker, 10_000, "early")
        await broker.snapshots.save("here")
        await broker.mover.advance(20 * S)
        await send_in(broker, 60_000, "late")
        state = await Player(broker, 0, []).state()
        transact = broker.store.database.transact

        async def refuse(statements: dict[str, object], *more: object) -> None:
            if any("FROM snapshot.messages" in sql for sql in statements):
                raise StoreUnavailableError("no")
            await transact(statements, *more)  # type: ignore[arg-type]

        monkeypatch.setattr(broker.store.database, "transact", refuse)
        with pytest.raises(StoreUnavailableError):
            await broker.snapshots.restore("here")
        monkeypatch.undo()
        assert await Player(broker, 0, []).state() == state
        assert (await broker.mover.advance(60 * S)).fired == 1
        await broker.snapshots.restore("here")
        assert (await broker.mover.advance(60 * S)).fired == 1
        assert bodies(await visible(broker)) == ["early"]


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
async def test_a_half_message_of_before_is_committed_and_delivered_once_after_each_restore(
    tmp_path: Path, scheme: TimedSchemeName, restarts: bool
) -> None:
    """The log offset of a half message is the number of its committed message, and so repeats."""
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        due_ms = broker.clock.now_us() // US_PER_MS + 60_000
        half = await prepare(broker, __STARTDELIVERTIME=str(due_ms), UNIQ_KEY="half")
        await broker.snapshots.save("here")
        await broker.half_messages.decide("half", commit=True)
        await broker.snapshots.restore("here")
        for _ in range(2):
            assert [one.log_offset for one in broker.half_messages.open()] == [half.receipt.log_offset]
            await broker.half_messages.decide("half", commit=True)
            assert broker.pending.count == 1
            await broker.mover.advance(120 * S)
            assert bodies(await visible(broker)) == ["half"]
            await broker.snapshots.restore("here")
            assert (await visible(broker), broker.pending.count) == ([], 0)
        if not restarts:
            return
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await broker.half_messages.decide("half", commit=True)
        await broker.mover.advance(120 * S)
        assert bodies(await visible(broker)) == ["half"]


async def test_a_half_message_is_open_after_a_restore_whose_old_file_a_kill_has_left(tmp_path: Path) -> None:
    async with running_broker(tmp_path, timed_scheme="directories") as broker:
        due_ms = broker.clock.now_us() // US_PER_MS + 60_000
        await prepare(broker, __STARTDELIVERTIME=str(due_ms), UNIQ_KEY="half")
        await broker.snapshots.save("here")
        await broker.half_messages.decide("half", commit=True)
        [file] = message_files(tmp_path)
        content = file.read_bytes()
        await broker.snapshots.restore("here")
        await no_removal_left(broker)
        assert message_files(tmp_path) == []
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    async with running_broker(tmp_path, timed_scheme="directories") as broker:
        assert len(broker.half_messages.open()) == 1
        await broker.half_messages.decide("half", commit=True)
        assert broker.pending.count == 1
        await broker.mover.advance(120 * S)
        assert bodies(await visible(broker)) == ["half"]


def test_every_scheme_has_another_one() -> None:
    assert sorted(OTHERS) == sorted(OTHERS.values()) == sorted(SCHEMES)
