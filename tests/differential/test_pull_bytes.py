"""Both brokers end a pull at the same byte."""

import asyncio
import os
from collections.abc import Sequence

import pytest

from mocketmq.remoting.wire.record import decode_records
from tests.differential.duel import Duel
from tests.differential.op import Ends
from tests.differential.player import POLL_S
from tests.doors.remoting import consuming, producing
from tests.support.patience import PATIENCE_S
from tests.support.remoting import RemotingClient, connected

MOST = 262_144
"""Limit on the bytes of a pull (maxTransferBytesOnMessageInMemory)."""
PROPERTIES = {"UNIQ_KEY": "7F0000010000000000000000000000", "WAIT": "true", "a": "\u00fc" * 20, "TAGS": "b"}


@pytest.mark.differential
@pytest.mark.asyncio(loop_scope="session")
async def test_a_pull_ends_at_the_same_byte(duels: Sequence[Duel]) -> None:
    found = await asyncio.gather(*(_pulled(ends) for duel in duels for ends in (duel.theirs, duel.ours)))
    for one in found:  # RocketMQ 5 stores two more properties
        assert one == [[2, 3, MOST], [2, 2, one[1][2]]]


async def _pulled(ends: Ends) -> list[list[int]]:
    """Return the message counts of a pull before and of a pull after a third message is sent.

    The third message fits exactly in one queue and not in the other. The size of the second pull comes last.
    """
    found = []
    async with connected(ends.host, ends.broker_port) as client:
        for queue_id, more in enumerate((0, 1)):
            for count in (1, 2):
                await _send(client, queue_id, 100_000, count)
            two = await _pull(client, queue_id)
            size = len(two) // 2
            await _send(client, queue_id, MOST - len(two) - (size - 100_000) + more, 3)
            three = await _pull(client, queue_id)
            found.append([len(decode_records(two)), len(decode_records(three)), len(three)])
    return found


async def _send(client: RemotingClient, queue_id: int, size: int, count: int) -> None:
    """Send a body of this size, and wait until the queue has ``count`` messages."""
    topic = f"bytes_{os.getpid():x}"
    await producing.sent(client, bytes(size), properties=PROPERTIES, topic=topic, queue_id=queue_id)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await client.ok(consuming.MAX_OFFSET, consuming.place(queue_id, topic, None))
            if answer.ext["offset"] == str(count):
                return
            await asyncio.sleep(POLL_S)


async def _pull(client: RemotingClient, queue_id: int) -> bytes:
    """Pull from the start of the queue, and return the records as bytes."""
    topic = f"bytes_{os.getpid():x}"
    answer = await client.ok(consuming.PULL, consuming.pull_of(topic=topic, queueId=queue_id))
    return answer.body
