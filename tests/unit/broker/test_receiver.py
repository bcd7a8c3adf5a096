"""The life of a message for one group, as the docstring draws it: states, and refusals in each."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.receiver import InFlightMessage
from mocketmq.broker.consuming.settler import Settled
from tests.support.brokers import (
    GROUP,
    TOPIC,
    S,
    acknowledge,
    bodies,
    give_back,
    receive,
    running_broker,
    send,
    visible,
)

Step = Callable[[Broker, InFlightMessage], Awaitable[Settled]]


async def acknowledged(broker: Broker, taken: InFlightMessage) -> Settled:
    return await acknowledge(broker, [taken])


async def given_back(broker: Broker, taken: InFlightMessage) -> Settled:
    return await give_back(broker, [taken])


async def given_up(broker: Broker, taken: InFlightMessage) -> Settled:
    return await give_back(broker, [taken], -1)


async def extended(broker: Broker, taken: InFlightMessage) -> Settled:
    return await broker.settler.extend(GROUP, [taken.handle], 60 * S)


async def run_out(broker: Broker, _taken: InFlightMessage) -> Settled:
    await broker.mover.advance(10 * S)
    return Settled([], [])


STEPS: list[Step] = [acknowledged, given_back, given_up, extended]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("before", [acknowledged, given_back, given_up, run_out])
async def test_receipt_is_accepted_once(before: Step, step: Step) -> None:
    async with running_broker() as broker:
        await send(broker)
        [taken] = await receive(broker, invisible_us=10 * S)
        await before(broker, taken)
        assert (await step(broker, taken)).done == []
        assert broker.pending.count == (before is given_back)


@pytest.mark.parametrize("step", STEPS)
async def test_extended_receipt_stays_valid(step: Step) -> None:
    async with running_broker() as broker:
        await send(broker)
        [taken] = await receive(broker, invisible_us=10 * S)
        await extended(broker, taken)
        await broker.mover.advance(59 * S)
        assert (await step(broker, taken)).done == [taken.handle]


@pytest.mark.parametrize(
    ("step", "outcome", "pending", "dead"),
    [
        (acknowledged, "acked", 0, []),
        (given_back, "retried", 1, []),
        (given_up, "dead", 0, ["hello"]),
        (extended, None, 0, []),
        (run_out, None, 0, []),
    ],
)
async def test_each_operation_leads_to_its_state(
    step: Step, outcome: str | None, pending: int, dead: list[str]
) -> None:
    async with running_broker() as broker:
        sent = await send(broker)
        [taken] = await receive(broker, invisible_us=10 * S)
        await step(broker, taken)
        take = (await broker.histories.of(sent.stored.unique_key)).receipts[0]
        assert (take.outcome, take.settled_us is None) == (outcome, outcome is None)
        assert broker.pending.count == pending
        if dead:
            assert bodies(await visible(broker, f"%DLQ%{GROUP}")) == dead
        assert len(await receive(broker)) == (step is run_out)


async def test_first_take_time_of_a_message_is_kept(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker)
        await broker.mover.advance(5 * S)
        first_us = broker.clock.now_us()
        assert [one.first_taken_us for one in await receive(broker, invisible_us=10 * S)] == [first_us]
        await broker.mover.advance(10 * S)
        assert [one.first_taken_us for one in await receive(broker, invisible_us=10 * S)] == [first_us]
        [of_another] = await receive(broker, group="shipping")
        assert of_another.first_taken_us == first_us + 10 * S
    async with running_broker(tmp_path) as broker:
        await broker.mover.advance(10 * S)
        assert [one.first_taken_us for one in await receive(broker)] == [first_us]


async def test_group_reset_restarts_the_first_take_time(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker, queue=0)
        await acknowledge(broker, await receive(broker))
        await broker.mover.advance(5 * S)
        await broker.committed_offsets.commit(GROUP, TOPIC, 0, 0)
        again_us = broker.clock.now_us()
        assert [one.first_taken_us for one in await receive(broker, invisible_us=10 * S)] == [again_us]
    async with running_broker(tmp_path) as broker:
        await broker.mover.advance(10 * S)
        assert [one.first_taken_us for one in await receive(broker)] == [again_us]
