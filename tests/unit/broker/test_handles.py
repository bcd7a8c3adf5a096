"""Receipt handles: where a handle is valid, and how invalid and spent handles are distinguished."""

import pytest

from mocketmq.broker.consuming.handles import check_handle
from mocketmq.errors import ReceiptError, ReceiptSpentError
from tests.support.brokers import GROUP, TOPIC, S, acknowledge, receive, running_broker, send


async def test_a_handle_belongs_to_one_group_and_topic() -> None:
    async with running_broker() as broker:
        await send(broker)
        [taken] = await receive(broker)
        check_handle(taken.handle, GROUP, TOPIC)
        for group, topic in (("shipping", TOPIC), (GROUP, "audit")):
            with pytest.raises(ReceiptError) as refused:
                check_handle(taken.handle, group, topic)
            assert type(refused.value) is ReceiptError


@pytest.mark.parametrize(
    "handle", ["", "x", "1-2-3", "1-2-3-4-5", "1--2-3", "1-2-3-4", "g-1-2-3", "0" * 10_000]
)
async def test_an_invented_handle_is_invalid(handle: str) -> None:
    with pytest.raises(ReceiptError) as refused:
        check_handle(handle, GROUP, TOPIC)
    assert len(str(refused.value)) < 200
    async with running_broker() as broker:
        await send(broker)
        await receive(broker)
        [(_, error)] = (await broker.settler.acknowledge(GROUP, [handle])).failed
        assert type(error) is ReceiptError


async def test_forged_topic_in_a_handle_is_refused_while_its_message_is_open() -> None:
    async with running_broker() as broker:
        await send(broker)
        [taken] = await receive(broker)
        *kept, _ = taken.handle.split("-")
        for forged in ("-".join([*kept, "1"]), taken.handle.replace("-1-", "-2-", 1)):
            [(_, error)] = (await broker.settler.acknowledge(GROUP, [forged])).failed
            assert type(error) is ReceiptError


async def test_used_handles_are_refused() -> None:
    async with running_broker() as broker:
        await send(broker)
        [first] = await receive(broker, invisible_us=10 * S)
        await broker.mover.advance(10 * S)
        errors = [(await acknowledge(broker, [first])).failed[0][1]]
        [second] = await receive(broker)
        errors.append((await acknowledge(broker, [first])).failed[0][1])
        assert (await acknowledge(broker, [second])).done
        errors.append((await acknowledge(broker, [second])).failed[0][1])
        assert [type(error) for error in errors] == [ReceiptSpentError] * 3
        for error, word in zip(errors, (" ms", "taken again", "settled or removed"), strict=True):
            assert word in str(error)
