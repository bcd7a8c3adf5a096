"""Fills a data directory with pending messages while no broker uses it."""

import asyncio
import threading
from pathlib import Path
from typing import Final

from mocketmq.app import running_emulator
from mocketmq.broker.sending.sender import MAX_BATCH
from mocketmq.clock import US_PER_MS, US_PER_S, wall_us
from mocketmq.lab.load import LEVELS, TABLE, SchemeName, delay_property
from mocketmq.message.message import Message
from mocketmq.message.properties import UNIQ_KEY
from mocketmq.settings import Settings, TimedSchemeName
from mocketmq_compat.delay.delayed_file import DelayedFile, FileHeader
from mocketmq_compat.delay.offline import adding
from mocketmq_compat.delay.schemes import SCHEMES

TOPIC: Final = "lab"
DAY_US: Final = 86_400 * US_PER_S


async def fill_with_herd(scheme: SchemeName, data: Path, count: int, delay_us: int, size: int) -> None:
    """Add messages that are all due at one instant, ``delay_us`` from now."""
    if scheme == LEVELS:
        await _fill_levels(data, count, (delay_us,), size)
    else:
        await _fill_timed(scheme, data, count, delay_us, 0, size)


async def fill_with_pending(scheme: SchemeName, data: Path, count: int, size: int) -> None:
    """Add messages that stay pending, in the longest two levels or due in 24 to 48 hours."""
    if scheme == LEVELS:
        await _fill_levels(data, count, TABLE.delays_us[-2:], size)
    else:
        await _fill_timed(scheme, data, count, DAY_US, DAY_US, size)


async def _fill_levels(data: Path, count: int, delays_us: tuple[int, ...], size: int) -> None:
    """Send through a broker in this process, with a manual clock so that all store times are equal."""
    settings = Settings(
        data=str(data), clock="manual", http_port=0, remoting=False, grpc=False, durability="normal"
    )
    properties = [delay_property(LEVELS, each) for each in delays_us]
    async with running_emulator(settings) as emulator:
        for start in range(0, count, MAX_BATCH):
            numbers = range(start, min(start + MAX_BATCH, count))
            messages = [
                Message(TOPIC, bytes(size), dict(properties[each % len(properties)])) for each in numbers
            ]
            await emulator.broker.sender.send_batch(messages)


async def _fill_timed(
    scheme: TimedSchemeName, data: Path, count: int, delay_us: int, span_us: int, size: int
) -> None:
    """Add messages due at even intervals, as an import does. The thread stops if the caller is cancelled."""
    first_us, is_given_up = wall_us() + delay_us, threading.Event()

    def add() -> None:
        with adding(scheme, data / SCHEMES[scheme].folder, lambda *_: None) as new:
            for number in range(count):
                if is_given_up.is_set():
                    return
                due_ms = (first_us + number * span_us // count) // US_PER_MS
                new.add_message(_message(number, due_ms * US_PER_MS, first_us - delay_us, size))
            new.sync()

    try:
        await asyncio.to_thread(add)
    finally:
        is_given_up.set()


def _message(number: int, due_us: int, stored_us: int, size: int) -> DelayedFile:
    key = f"{number:032X}"
    header = FileHeader(
        number=number,
        due_us=due_us,
        stored_us=stored_us,
        topic=TOPIC,
        queue_id=0,
        unique_key=key,
        born_us=stored_us,
        born_host="127.0.0.1:1",
        store_host="127.0.0.1:10911",
        flag=0,
        sys_flag=0,
        reconsume_times=0,
        size=size,
        properties={UNIQ_KEY: key},
    )
    return DelayedFile(header, bytes(size))
