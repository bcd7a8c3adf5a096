"""A load that runs until the broker is gone, and tells the judge everything."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random

from emulator.client import Answer, BrokerError, Client, UnreachableError, outgoing
from tests.crash.judge import Judge

TOPIC = "orders"
GROUP = "shop"
INVISIBLE = "12h"
"""Emulated; longer than any load lasts, so that what it has taken can be settled."""
BODY_BYTES = 2_000


class Load:
    """Several clients at once, each as fast as it can, with the choices of a seeded ``random``."""

    def __init__(
        self, client: Client, judge: Judge, random: Random, delays_s: list[int], *, moves: bool
    ) -> None:
        self._client = client
        self._judge = judge
        self._random = random
        self._delays_s = delays_s  # of the levels, from 1 on
        self._acts = [self._send, self._send, self._send_batch, self._consume, self._consume]
        if moves:
            self._acts.append(self._move)

    async def run(self) -> None:
        """Until the broker is gone."""
        async with asyncio.TaskGroup() as tasks:
            for act in self._acts:
                tasks.create_task(_until_gone(act))

    def _message(self) -> Answer:
        random = self._random
        message = outgoing("b" * random.randint(1, BODY_BYTES), message_id=f"{random.getrandbits(64):016x}")
        return message | {"delay_level": random.randint(0, len(self._delays_s))}

    async def _send(self) -> None:
        message = self._message()
        self._judge.sending([message["message_id"]])
        self._judge.sent(await self._client.send(TOPIC, **message))

    async def _send_batch(self) -> None:
        messages = [self._message() for _ in range(self._random.randint(1, 20))]
        self._judge.sending(message["message_id"] for message in messages)
        for answer in await self._client.send_batch(TOPIC, messages):
            self._judge.sent(answer)

    async def _consume(self) -> None:
        intention = self._random.choice(("acknowledge", "acknowledge", "give back", "forget"))
        messages = await self._client.receive(
            TOPIC,
            group=GROUP,
            max_messages=self._random.randint(1, 32),
            wait="50ms",
            invisible="1s" if intention == "forget" else INVISIBLE,
        )
        self._judge.received(messages)
        if not messages or intention == "forget":
            return
        if intention == "acknowledge":
            self._judge.acking(messages)
            answer = await self._client.acknowledge(GROUP, messages)
            self._judge.acknowledged(messages)
        else:
            level = self._random.randint(1, len(self._delays_s))
            self._judge.giving_back(messages, self._delays_s[level - 1] * 1_000)
            answer = await self._client.give_back(GROUP, messages, level)
            self._judge.gave_back(messages)
        assert not answer["failed"], answer

    async def _move(self) -> None:
        if self._random.random() < 0.8:
            answer = await self._client.advance(self._random.choice(("100ms", "1s", "5s", "1m")))
        else:
            answer = await self._move_to_next()
        self._judge.saw_clock(answer["now_ms"])

    async def _move_to_next(self) -> Answer:
        try:
            return await self._client.move_to_next()
        except BrokerError as error:
            assert error.status == 409, error  # nothing is pending
            return await self._client.clock()


async def _until_gone(act: Callable[[], Coroutine[None, None, None]]) -> None:
    try:
        while True:
            await act()
    except UnreachableError:
        pass
