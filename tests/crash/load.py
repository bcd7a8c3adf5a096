"""A load that runs until the broker is killed, and reports every answer to the judge."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from random import Random

from mocketmq import BrokerError, Client, UnreachableError, outgoing
from mocketmq.client.answer import JsonObject
from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.message.broker_share import broker_names
from tests.crash.judge import Judge

TOPIC = "orders"
GROUP = "shop"
INVISIBLE = "12h"
"""Invisible time on the emulated clock; longer than any load, so that receipts stay valid."""
BODY_BYTES = 2_000
MESSAGES_PER_MOVE = 100
"""Maximum number of sends during a clock move, which delivers them too and would otherwise not end."""


class Load:
    """Several concurrent clients, each as fast as possible, with choices of a seeded ``random``.

    ``on_act`` is called after each of their acts.
    """

    def __init__(
        self,
        client: Client,
        judge: Judge,
        random: Random,
        delays_s: list[int],
        *,
        moves: bool,
        brokers: int = 1,
        on_act: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._judge = judge
        self._random = random
        self._delays_s = delays_s  # delays of the levels from 1 on
        self._acts = [self._send, self._send, self._send_batch, self._intervene, self._consume, self._consume]
        self._still = asyncio.Event()  # set while the clock is not moving
        self._still.set()
        self._sent_during_move = 0
        if moves:
            self._acts.append(self._move)
        self._on_act = on_act
        self._brokers = broker_names(brokers)
        if brokers > 1:
            self._acts.append(self._end_a_broker)

    async def run(self) -> None:
        """Run until the process dies."""
        async with asyncio.TaskGroup() as tasks:
            for act in self._acts:
                tasks.create_task(self._until_gone(act))

    async def _until_gone(self, act: Callable[[], Coroutine[None, None, None]]) -> None:
        with suppress(UnreachableError):
            while True:
                try:
                    await act()
                except BrokerError as error:
                    assert error.status == 503, error
                    assert len(self._brokers) > 1, error  # one of them is down
                self._on_act()

    def _message(self, delay: JsonObject) -> JsonObject:
        random = self._random
        message = outgoing("b" * random.randint(1, BODY_BYTES), message_id=f"{random.getrandbits(64):016x}")
        return message | delay

    def _any_delay(self) -> JsonObject:
        if self._random.random() < 0.5:
            return self._due_time()
        return {"delay_level": self._random.randint(0, len(self._delays_s))}

    def _due_time(self) -> JsonObject:
        """Return mostly equal instants, because a clock move needs a transaction for each instant."""
        random = self._random
        tenths = random.randint(1, max(self._delays_s) * 10)
        if random.random() < 0.1:
            return {"start_deliver_ms": wall_us() // US_PER_MS + tenths * 100}
        return {"delay_ms": tenths * 100 - (random.random() < 0.1)}

    async def _send(self) -> None:
        await self._send_one(self._message(self._any_delay()))

    async def _send_one(self, message: JsonObject) -> None:
        await self._may_send(1)
        self._judge.sending([message])
        self._judge.sent(await self._client.send(TOPIC, **message))

    async def _may_send(self, count: int) -> None:
        self._sent_during_move += count
        if self._sent_during_move > MESSAGES_PER_MOVE:
            await self._still.wait()

    async def _send_batch(self) -> None:
        messages = [self._message(self._any_delay()) for _ in range(self._random.randint(1, 20))]
        await self._may_send(len(messages))
        self._judge.sending(messages)
        for answer in await self._client.send_batch(TOPIC, messages):
            self._judge.sent(answer)

    async def _intervene(self) -> None:
        """Cancel or force some messages, of which some fall due first."""
        message = self._message(self._due_time())
        await self._send_one(message)
        message_id = message["message_id"]
        if self._random.random() < 0.5:
            self._judge.cancelling(message_id)
            if await _is_done(self._client.cancel(message_id)):
                self._judge.cancelled(message_id)
            else:
                self._judge.not_cancelled(message_id)
        else:
            self._judge.forcing(message_id)
            await _is_done(self._client.deliver(message_id))

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
            self._judge.acknowledged(self._done(messages, answer))
        else:
            level = self._random.randint(1, len(self._delays_s))
            self._judge.giving_back(messages, self._delays_s[level - 1] * 1_000)
            answer = await self._client.give_back(GROUP, messages, level)
            self._judge.gave_back(self._done(messages, answer))

    def _done(self, messages: Sequence[JsonObject], answer: JsonObject) -> Sequence[JsonObject]:
        """Return the messages that were settled: all, unless a broker of a cluster is down."""
        failed = {each["receipt"]: each["detail"] for each in answer["failed"]}
        assert not failed or len(self._brokers) > 1, failed
        return [each for each in messages if each["receipt"] not in failed]

    async def _end_a_broker(self) -> None:
        """End one of the brokers, promote its slave or both, and start it again after a while."""
        client, name = self._client, self._random.choice(self._brokers)
        ends = (client.crash_broker, client.shut_down_broker, client.promote_slave)
        for end in self._random.sample(ends, self._random.randint(1, 2)):
            await _is_done(end(name))
        for _ in range(self._random.randint(0, 20)):
            await client.clock()
        await _is_done(client.start_broker(name))

    async def _move(self) -> None:
        self._still.clear()
        self._sent_during_move = 0
        try:
            if self._random.random() < 0.8:
                answer = await self._client.advance(self._random.choice(("100ms", "1s", "5s", "1m")))
            else:
                answer = await self._move_to_next()
        finally:
            self._still.set()
        self._judge.saw_clock(answer["now_ms"])

    async def _move_to_next(self) -> JsonObject:
        await _is_done(self._client.move_to_next())
        return await self._client.clock()


async def _is_done(request: Awaitable[JsonObject]) -> bool:
    """Whether the broker complied. It refuses if the message is no longer pending."""
    try:
        await request
    except BrokerError as error:
        assert error.status == 409, error
        return False
    return True
