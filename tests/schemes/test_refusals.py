"""After the disk or the store refuses a write, no partial work stays, and nothing is lost or repeated."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mocketmq.errors import EmulatorError, InternalError, StoreUnavailableError
from mocketmq.settings import TimedSchemeName
from mocketmq_compat.delay.schemes import SCHEMES
from tests.broker.test_checked_halves import prepare
from tests.process.delay_files import files_below
from tests.support.brokers import Refusing, S, bodies, receive, running_broker, visible
from tests.support.held_up import HeldMarks
from tests.support.patience import HANGING_S
from tests.support.second_directories import (
    HOUR_MS,
    MS,
    in_order_of_delivery,
    listed,
    no_removal_left,
    refuse,
    scheme_of,
    send_in,
)


def fail(*_: object) -> None:
    """Replaces a function, and fails like a defect."""
    raise ZeroDivisionError("a defect")


@pytest.mark.parametrize(
    ("step", "fault", "refusal"),
    [
        ("write", refuse, StoreUnavailableError),
        ("write", fail, InternalError),
        ("sync", refuse, StoreUnavailableError),
    ],
)
async def test_a_send_that_cannot_be_saved_is_refused_and_keeps_nothing(
    scheme: TimedSchemeName,
    step: str,
    fault: Any,
    refusal: type[EmulatorError],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await send_in(broker, HOUR_MS, "before")
        figures = broker.schemes.file_figures()
        with monkeypatch.context() as patch:
            patch.setattr(type(scheme_of(broker).store), step, fault)
            with pytest.raises(refusal):
                await send_in(broker, HOUR_MS, "refused")
        await no_removal_left(broker)
        assert await listed(broker) == ["before"]
        if scheme == "directories":  # logs keep the record until the next write at their end
            assert broker.schemes.file_figures() == figures
        await send_in(broker, HOUR_MS, "after")
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        assert await listed(broker) == ["before", "after"]
        await broker.mover.advance(2 * 3_600 * S)
        assert await in_order_of_delivery(broker) == ["before", "after"]


async def test_a_refused_send_whose_record_cannot_be_removed_is_not_pending(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await send_in(broker, HOUR_MS, "before")
        engine = scheme_of(broker)
        with monkeypatch.context() as patch:
            for step in ("sync", "forget"):
                patch.setattr(type(engine.store), step, refuse)
            with pytest.raises(StoreUnavailableError):
                await send_in(broker, HOUR_MS, "refused")
            await engine.marked()
            await engine.entries.refill()
            assert await listed(broker) == ["before"]
            assert (broker.schemes.pending, broker.schemes.file_figures().unremoved) == (1, 1)
        await engine.tidy()
        assert broker.schemes.file_figures().unremoved == 0
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        assert await listed(broker) == ["before"]
        await broker.mover.advance(2 * 3_600 * S)
        assert await in_order_of_delivery(broker) == ["before"]


async def test_a_half_message_whose_record_was_refused_can_be_committed_again(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        due_ms = broker.clock.now_us() // MS + 60_000
        await prepare(broker, __STARTDELIVERTIME=str(due_ms), UNIQ_KEY="half")
        engine = scheme_of(broker)
        with monkeypatch.context() as patch:
            patch.setattr(type(engine.store), "forget", refuse)
            with monkeypatch.context() as once:
                once.setattr(type(engine.store), "sync", refuse)
                with pytest.raises(StoreUnavailableError):
                    await broker.half_messages.decide("half", commit=True)
            with pytest.raises(StoreUnavailableError, match="refused to remove"):
                await broker.half_messages.decide("half", commit=True)
        await engine.tidy()
        await broker.half_messages.decide("half", commit=True)
        assert broker.schemes.pending == 1
        await engine.tidy()
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await broker.mover.advance(60 * S)
        assert bodies(await visible(broker)) == ["half"]


async def test_refused_marks_are_retried_and_repeat_no_delivery(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        for body in ("one", "two"):
            await send_in(broker, 1_000, body)
        engine = scheme_of(broker)
        with monkeypatch.context() as patch:
            patch.setattr(type(engine.store), "forget", refuse)
            assert (await broker.mover.advance(S)).fired == 2
            await engine.marked()
            assert (await broker.mover.advance(S)).fired == 0, "not marked, but known as done with"
            assert (broker.schemes.pending, broker.schemes.file_figures().unremoved) == (0, 2)
        await engine.tidy()
        await engine.marked()
        assert broker.schemes.file_figures().unremoved == 0
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        assert broker.schemes.pending == 0
        await broker.mover.advance(60 * S)
        assert bodies(await visible(broker)) == ["one", "two"]


@pytest.mark.interpreted
async def test_nothing_is_marked_before_its_delivery_is_durable(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / SCHEMES[scheme].folder
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        for delay_ms in (1_000, 2_000):
            await send_in(broker, delay_ms)
        before = files_below(folder)
        marks = HeldMarks(broker, monkeypatch)
        assert (await broker.mover.advance(S)).fired == 1
        assert files_below(folder) == before, "delivered, but the power may fail"
        assert broker.schemes.file_figures().unremoved == 1
        marks.durable.set()
        await no_removal_left(broker)
        assert files_below(folder) != before
        assert broker.schemes.file_figures().unremoved == 0


async def test_a_delivery_that_the_store_refuses_is_tried_again_in_order(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        for number in range(3):
            await send_in(broker, 1_000 + 700 * number, str(number))
        due = broker.schemes.due_seconds()
        async with Refusing(broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await broker.mover.advance(3 * S)
        assert (broker.schemes.pending, broker.schemes.due_seconds()) == (3, due)
        await broker.mover.advance(3 * S)
        assert await in_order_of_delivery(broker) == ["0", "1", "2"]


async def test_a_defect_in_one_pass_ends_no_delivery(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, clock="real", timed_scheme=scheme) as broker:
        timed = broker.schemes.timed()
        firing, failures = timed.firing, list[int]()

        def fail_once(until_us: int) -> Any:
            if not failures:
                failures.append(until_us)
                fail()
            return firing(until_us)

        monkeypatch.setattr(timed, "firing", fail_once)  # simulates a defect
        for body in ("first", "second"):
            await send_in(broker, 5, body)
            assert bodies(await receive(broker, wait_s=HANGING_S)) == [body], "the timer has ended"
    assert len(failures) == 1


async def test_quota_counts_pending_messages_and_saves_in_progress(
    scheme: TimedSchemeName, tmp_path: Path
) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme, delay_quota_bytes=20_000) as broker:
        sends = (send_in(broker, 1_000, "x" * 3_000) for _ in range(9))
        results = await asyncio.gather(*sends, return_exceptions=True)
        refused = [result for result in results if isinstance(result, Exception)]
        assert 0 < len(refused) < 9
        assert "raise --delay-quota" in str(refused[0])
        assert broker.schemes.pending == 9 - len(refused)
        assert 0 < broker.schemes.file_figures().disk_bytes <= 20_000
