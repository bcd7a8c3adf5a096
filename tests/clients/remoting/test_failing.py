"""What the broker shows of a failing and of a hanging consumer of RocketMQ's Python client."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.clients.failing import check_takes, kinds, shown
from tests.clients.remoting.conftest import RemotingBroker, running_remoting_broker
from tests.clients.remoting.driver import WAIT_S, running_driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOPIC, FAILING, HANGING = "payments", "GID_failing", "GID_hanging"


async def group_with(broker: RemotingBroker, name: str, **figures: int) -> Any:
    """Wait until the group has these figures, because its client commits every five seconds."""
    async with asyncio.timeout(WAIT_S):
        while True:
            group = await broker.control.group(name)
            if {key: group[key] for key in figures} == figures:
                return group


async def test_what_is_shown_is_what_the_consumers_did(home: Path, python_client: tuple[str, ...]) -> None:
    async with (
        running_remoting_broker("--max-wait", "5m") as broker,
        running_driver(python_client, home, name_server=broker.name_server) as driver,
    ):
        control = broker.control
        for group in (FAILING, HANGING):
            await control.put_group(group, max_retries=2)
        await control.put_topic(TOPIC, read_queues=1, write_queues=1)
        await driver.call("consume", group=FAILING, topic=TOPIC, failures=100)
        await driver.call("consume", group=HANGING, topic=TOPIC, hangs=True)
        sent = await control.send(TOPIC, "payment 7")
        for group in (FAILING, HANGING):
            await driver.next(group)

        await group_with(broker, FAILING, lag=0, in_flight=0, retrying=1)
        await group_with(broker, HANGING, lag=1, in_flight=1, retrying=0)
        states = {one["group"]: one["state"] for one in await control.leaks()}
        assert states == {FAILING: "to be retried", HANGING: "in flight"}

        [dead] = await control.assert_dead(TOPIC, 1, group=FAILING, advance="1d", wait="5m", pause="5m")
        assert dead["message_id"] == sent["message_id"]
        for _ in range(2):  # the driver's lines may come after the broker's answers
            await driver.next(FAILING)
        assert not driver.received[FAILING]
        seen = await shown(control, sent["message_id"])
        check_takes(seen, FAILING, 3)
        check_takes(seen, HANGING, 1)
        assert kinds(seen, FAILING) == [*["taken", "retried"] * 2, "taken", "dead"]
        assert kinds(seen, HANGING) == ["taken"]
        assert sum("given back" in one["text"] for one in seen.life) == 2
        await group_with(broker, FAILING, lag=0, in_flight=0, retrying=0)
        assert {one["group"]: one["state"] for one in await control.leaks()} == {HANGING: "in flight"}
