"""What the broker shows of a failing and of a hanging consumer of RocketMQ 5's Python client."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from mocketmq import Client
from mocketmq.app import running_emulator
from mocketmq.clock import US_PER_S
from mocketmq.settings import Settings
from tests.clients.failing import check_takes, kinds, shown
from tests.clients.grpc.programs import RunningProgram, python, running
from tests.clients.grpc.versions import FOLDER
from tests.clients.remoting.driver import WAIT_S
from tests.support.brokers import FREE_PORTS
from tests.support.grpc import touch
from tests.support.patience import HANGING_S

pytestmark = pytest.mark.interop

TOPIC, FAILING, HANGING = "payments", "failing", "hanging"
LONGEST = f"{HANGING_S:g}s"
"""Also the longest pause, because a slow client would otherwise count as hanging."""


class Application:
    """The program, and the attempts that it has reported, by group."""

    def __init__(self, consumers: RunningProgram) -> None:
        self.attempts: Counter[str] = Counter()
        self._consumers = consumers

    async def follow(self, group: str, attempt: int) -> None:
        """Wait until the group reaches this attempt."""
        async with asyncio.timeout(WAIT_S):
            while self.attempts[group] < attempt:
                words = (await self._consumers.line()).split()
                self.attempts[words[0]] += 1
                assert int(words[1]) == self.attempts[words[0]]


async def test_what_is_shown_is_what_the_consumers_did(tmp_path: Path) -> None:
    program = await asyncio.to_thread(python, FOLDER / "python" / "failing.py", tmp_path)
    longest_us = int(HANGING_S * US_PER_S)
    settings = Settings(
        data=":memory:", clock="manual", max_long_poll_us=US_PER_S, max_wait_us=longest_us, **FREE_PORTS
    )
    async with running_emulator(settings) as emulator, Client(emulator.url) as control:
        for group in (FAILING, HANGING):
            await control.put_group(group, max_retries=2)
        await control.put_topic(TOPIC, type="normal")
        sent = await control.send(TOPIC, "payment 7")
        assert emulator.grpc_address
        await touch(emulator.grpc_address)
        arguments = (emulator.grpc_address, TOPIC, FAILING, HANGING)
        async with running(program, tmp_path, *arguments) as consumers:
            application = Application(consumers)
            for group in (FAILING, HANGING):
                await application.follow(group, 1)
            async with asyncio.timeout(WAIT_S):
                while (failing := await control.group(FAILING))["retrying"] == 0:
                    pass
            assert (failing["in_flight"], failing["retrying"]) == (0, 1)
            hanging = await control.group(HANGING)
            assert (hanging["in_flight"], hanging["retrying"]) == (1, 0)
            states = {one["group"]: one["state"] for one in await control.leaks()}
            assert states == {FAILING: "postponed", HANGING: "in flight"}

            [dead] = await control.assert_dead(
                TOPIC, 1, group=FAILING, advance="30m", wait=LONGEST, pause=LONGEST
            )
            assert dead["message_id"] == sent["message_id"]
            await application.follow(FAILING, 3)
            seen = await shown(control, sent["message_id"])
            check_takes(seen, FAILING, application.attempts[FAILING])
            check_takes(seen, HANGING, application.attempts[HANGING])
            assert kinds(seen, FAILING) == [*["taken", "postponed"] * 3, "dead"]
            assert kinds(seen, HANGING) == ["taken", "visible"]
            assert not any("given back" in one["text"] for one in seen.life)
            figures = [(await control.group(FAILING))[name] for name in ("lag", "in_flight", "retrying")]
            assert figures == [0, 0, 0]
            assert {one["group"]: one["state"] for one in await control.leaks()} == {HANGING: "in flight"}
