"""Steps that wait for spans: bounded, whatever a broker does."""

import pytest

from mocketmq.message.message import Message
from mocketmq.otlp import life_steps
from mocketmq.otlp.life_steps import CommitStep, LifeSteps, OffsetStep, ParkStep
from tests.support.brokers import TOPIC, acknowledge, receive, running_broker, send


async def test_what_does_not_fit_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life_steps, "MAX_STEPS", 3)
    async with running_broker() as broker:
        steps = LifeSteps(broker)
        for _ in range(3):
            await send(broker)
        await acknowledge(broker, await receive(broker))
        assert steps.dropped == 6  # given and settled, each of three
        await send(broker)  # a later commit covers the records of the former
        found = steps.take_steps()
        assert [type(step) for step in found] == [CommitStep] * 3
        assert found[-1][-1] == broker.store.writer.next_log_offset
        assert steps.take_steps() == []
        await send(broker)
        assert len(steps.take_steps()) == 1


async def test_properties_that_wait_are_bounded_and_bodies_do_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(life_steps, "MAX_BYTES", 1_000)
    async with running_broker() as broker:
        steps = LifeSteps(broker)
        for _ in range(3):
            await send(broker, "body" * 1_000, TIMER_DELAY_MS="1000", large="p" * 400)
        found = [step for step in steps.take_steps() if isinstance(step, ParkStep)]
        assert [(step.message.body, step.size) for step in found] == [(b"", 4_000)] * 2
        assert steps.dropped == 1


async def test_a_flood_of_records_is_read_from_its_newest_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life_steps, "MAX_RECORDS", 10)
    async with running_broker() as broker:
        steps = LifeSteps(broker)
        begin = broker.store.writer.next_log_offset
        await broker.sender.send_batch([Message(TOPIC, b"a", {}) for _ in range(15)])
        assert steps.first_of(begin, steps.take_steps()) == begin + 5
        assert steps.dropped == 5


async def test_a_commit_past_many_messages_has_steps_for_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life_steps, "MAX_OFFSETS", 2)
    async with running_broker() as broker:
        for _ in range(5):
            await send(broker, queue=0)
        await broker.committed_offsets.report("billing", TOPIC, 0, 0)
        steps = LifeSteps(broker)
        await broker.committed_offsets.report("billing", TOPIC, 0, 5)
        [step] = [step for step in steps.take_steps() if isinstance(step, OffsetStep)]
        assert list(step.offsets) == [3, 4]
        assert steps.dropped == 3
