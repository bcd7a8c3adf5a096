"""Sends delayed messages to any broker of RocketMQ's protocol, and measures lateness at a consumer."""

import asyncio
import re
from collections.abc import Sequence
from time import perf_counter
from typing import Final

from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.record import decode_records
from tests.bench.load import TICK_S
from tests.bench.remoting_client import check, connect, number_in, pull_frame, send_frame
from tests.support.remoting import connected
from tests.upstream.process import HOST

QUEUES: Final = 4

_MESSAGE_ID: Final = re.compile(rb'"msgId":"([0-9A-F]{32})"')
_LOOK_UPS: Final = 64


async def delayed(port: int, count: int, per_second: float | None, levels: Sequence[str]) -> list[float]:
    """Return the lateness of each message in milliseconds, at a consumer that uses long polls.

    Messages are sent at a pace, or as fast as they are answered. A message's due time is its delay after its
    store time, which the parked messages show at the end.
    """
    parked: dict[int, int] = {}
    got_us: dict[int, int] = {}
    all_there, may_send = asyncio.Event(), asyncio.Semaphore(256)

    def sent(opaque: int, head: bytes, _body: bytes) -> None:
        check(head)
        found = _MESSAGE_ID.search(head)
        assert found, f"an answer without message id: {head!r}"
        parked[opaque] = int(found[1][16:], 16)
        may_send.release()

    def pulled(opaque: int, head: bytes, body: bytes) -> bytes:
        now_us = wall_us()
        if check(head, (0, 19, 20, 21)) == 0:
            for record in decode_records(body):
                got_us[record.flag] = now_us
            if len(got_us) == count + 1:
                all_there.set()
        return pull_frame(opaque, opaque, number_in(head, b"nextBeginOffset"), wait_ms=15_000)

    producer = await connect(HOST, port, sent)
    consumer = await connect(HOST, port, pulled)
    await producer.ask(send_frame(count, flag=count))  # creates the topic
    for queue_id in range(QUEUES):
        consumer.write(pull_frame(queue_id, queue_id, 0, wait_ms=15_000))
    started = perf_counter()
    for number in range(count):
        await may_send.acquire()
        while per_second and number > (perf_counter() - started) * per_second:  # noqa: ASYNC110 - its pace
            await asyncio.sleep(TICK_S)
        level, queue_id = 1 + number % len(levels), number % QUEUES
        producer.write(send_frame(number, level=level, queue_id=queue_id, flag=number))
    await all_there.wait()
    stored_ms = await _stored_ms(port, parked)
    producer.close()
    consumer.close()
    delays_ms = [int(level.removesuffix("s")) * 1_000 for level in levels]
    return [
        got_us[number] / US_PER_MS - stored_ms[number] - delays_ms[number % len(levels)]
        for number in range(count)
    ]


async def _stored_ms(port: int, parked: dict[int, int]) -> dict[int, int]:
    """Return the store time of each parked message."""
    stored: dict[int, int] = {}
    async with connected(HOST, port) as client:
        numbers = list(parked)
        for start in range(0, len(numbers), _LOOK_UPS):
            some = numbers[start : start + _LOOK_UPS]
            asked = [client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(parked[one])}) for one in some]
            for number, answer in zip(some, await asyncio.gather(*asked), strict=True):
                [record] = decode_records(answer.body)
                stored[number] = record.store_ms
    return stored
