"""Nothing is lost if relays in front of mocketmq die before or after any of their requests."""

from collections.abc import Mapping, Sequence

import pytest

from mocketmq.calling.call import NoAnswerError
from mocketmq.calling.connection import Answer, ClientConnection
from mocketmq.relay.judging import RELAY_DELAY_MS, RELAY_TOPIC
from mocketmq.relay.partition import RelayedMessage, RelayError, RelayTopics, Settled
from mocketmq.relay.rocketmq.partition import RocketPartition
from mocketmq.remoting.wire.codes import RequestCode
from tests.support.relays import LATER, ORDERS, cluster_of, ids_of, properties_of, user_of
from tests.support.remoting import running_remoting

BODIES = [b"%d" % number for number in range(5)]
WRITES = (RequestCode.SEND_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET)


class Crash:
    """Ends a relay at its write request ``number``, before or after the broker has executed it."""

    def __init__(self, number: int, when: str) -> None:
        self.has_come = False
        self._left = number
        self._when = when

    async def call(
        self,
        connection: ClientConnection,
        code: int,
        ext: Mapping[str, str] | None,
        body: bytes,
        wait_s: float,
    ) -> Answer:
        """Return the answer, unless the relay is dead."""
        if code in WRITES:
            self._left -= 1
            if self._left < 0 and not self.has_come:
                self.has_come = True
                if self._when == "after":
                    await _call(connection, code, ext, body, wait_s=wait_s)
        if self.has_come:
            raise NoAnswerError("the relay is dead")
        return await _call(connection, code, ext, body, wait_s=wait_s)


_call = ClientConnection.call


async def served(partition: RocketPartition) -> dict[Settled, RelayedMessage]:
    """Take over the partition, keep and forward all messages, and return the rest of the shelf."""
    shelf: dict[Settled, RelayedMessage] = {}
    async for some in partition.restore():
        for each in some:
            if isinstance(each, RelayedMessage):
                shelf[Settled(each.number, each.due_us)] = each
            else:
                shelf.pop(each, None)
    while partition.next_offset < len(BODIES):
        for each in await partition.keep(await partition.arrivals()):
            shelf[Settled(each.number, each.due_us)] = each
    due: Sequence[RelayedMessage] = sorted(shelf.values(), key=lambda each: (each.due_us, each.number))
    left = await partition.forward(due)
    await partition.close()
    return {place: each for place, each in shelf.items() if each.id not in left}


@pytest.mark.parametrize("when", ["before", "after"])
async def test_crashes_lose_no_message(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    crash: Crash | None = None

    async def crashing_call(
        self: ClientConnection,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        wait_s: float = 0.0,
    ) -> Answer:
        if crash is None:
            return await _call(self, code, ext, body, wait_s=wait_s)
        return await crash.call(self, code, ext, body, wait_s)

    async def run(topics: RelayTopics) -> dict[Settled, RelayedMessage]:
        cluster = cluster_of(name_server, topics)
        try:
            await cluster.open()
            [partition] = await cluster.changed()
            return await served(partition)
        finally:
            await cluster.close()

    monkeypatch.setattr(ClientConnection, "call", crashing_call)
    async with running_remoting(clock="real") as remoting:
        remoting.broker.queue_locks.lifetime_us = 0  # locks of dead relays expire at once
        host = remoting.emulator.settings.host
        name_server = f"{host}:{remoting.server.namesrv_port}"
        async with user_of(host, remoting.server.broker_port) as user:
            repeats: list[bool] = []
            while True:
                number = len(repeats)
                topics = RelayTopics(
                    *(f"{LATER}-{when}-{number}{part}" for part in ("", "-pending", "-refused"))
                )
                orders = f"{ORDERS}-{number}"
                for topic in (topics.delayed, orders):
                    await user.make_topic(topic, 1)
                for body in BODIES:
                    await user.send(body, {RELAY_TOPIC: orders, RELAY_DELAY_MS: "0"}, topics.delayed, 0)
                crash = Crash(number, when)
                try:
                    await run(topics)
                except RelayError:
                    assert crash.has_come
                was_hit, crash = crash.has_come, None
                assert await run(topics) == {}
                assert await run(topics) == {}
                records = await user.received(BODIES, orders)
                assert all(len(ids) == 1 for ids in ids_of(records).values())
                assert all(properties_of(record)["RELAY_ID"] for record in records)
                repeats.append(len(records) > len(BODIES))
                if not was_hit:
                    break
            assert not repeats[-1]
            # an append to the log, the offset, 5 sends, a settlement, the offset of the log; then no crash
            assert len(repeats) == 1 + 1 + 5 + 1 + 1 + 1
