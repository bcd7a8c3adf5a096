"""Lateness over the wire: deliveries at a steady pace to a consumer with a long poll."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.remoting.wire.record import decode_records
from mocketmq.store.database import FILE_NAME
from tests.bench.conditions import DISK, LONG_SECONDS, RATES, STORES, place
from tests.bench.figures import Figure, at_most, quantile
from tests.bench.floors import bare_timer, memory_mb
from tests.bench.load import TICK_S
from tests.bench.progress import rounds, say
from tests.bench.remoting_client import acknowledged, check, connect, number_in, pull_frame, send_frame
from tests.support.brokers import rows
from tests.support.process import BrokerProcess, broker_process

LEVELS: Final = ("--levels", "1s 2s", "--topic-queues", "1")
BUSY_RATE: Final = 2_000
HOST: Final = "127.0.0.1"

_SAMPLE_S: Final = 1.0
_PARTS: Final = 5
"""Number of parts of a long run; the last part is compared with the first."""
_LONGEST_LOG_MB: Final = 250
"""Limit on the log: four times the length at which it may restart, plus the writes until it does."""
_STAGES: Final = "SELECT queue_offset, due_us, picked_us, delivered_us FROM deliveries ORDER BY due_us"


class Delivered(NamedTuple):
    """A message, timed by the ledger and by the consumer's clock."""

    due_us: int
    picked_us: int
    delivered_us: int
    got_us: int

    @property
    def late_ms(self) -> float:
        """Milliseconds from the due time until the consumer had the message."""
        return (self.got_us - self.due_us) / US_PER_MS


async def measure(quick: bool) -> list[Figure]:
    """Run short rounds on each store next to a bare loop, then long rounds on the disk."""
    seconds, count, long_s = (1.0, 1, 5.0) if quick else (5.0, 3, LONG_SECONDS)
    figures = []
    rates = [*RATES, BUSY_RATE]
    for store in STORES:
        runs: dict[int, list[list[float]]] = {rate: [] for rate in rates}
        controls: dict[int, list[list[float]]] = {rate: [] for rate in rates}
        for _ in rounds(f"lateness over remoting, {store}", count):
            for rate in rates:
                runs[rate].append([one.late_ms for one in await _run(store, rate, seconds)])
                controls[rate].append(await bare_timer(rate, seconds / 2))
        figures += [
            Figure(
                f"{store}, {rate:,} a second: {name}",
                "ms",
                [quantile(late_ms, share) for late_ms in runs[rate]],
                [quantile(late_ms, share) for late_ms in controls[rate]],
            )
            for rate in rates
            for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
        ]
    for rate in RATES:
        figures += await _growth(rate, long_s)
    return figures


async def _run(store: str, rate: int, seconds: float) -> list[Delivered]:
    async with place(store) as data, broker_process("--data", str(data), *LEVELS) as process:
        return await deliveries(process.broker_port, data, rate, seconds)


async def _growth(rate: int, seconds: float) -> list[Figure]:
    say(f"{rate} a second for {seconds:.0f} s")
    samples: list[tuple[float, float]] = []
    async with (
        place(DISK) as data,
        broker_process("--data", str(data), *LEVELS) as process,
        _sampled(process, data, samples),
    ):
        found = await deliveries(process.broker_port, data, rate, seconds)
    late_ms = [one.late_ms for one in found]
    part = max(len(late_ms) // _PARTS, 1)
    first, last = late_ms[:part], late_ms[-part:]
    memory, log = zip(*samples, strict=True)
    name = f"{rate:,} a second for {seconds:.0f} s"
    return [
        *(
            Figure(
                f"{name}: {which} of the last fifth (floor: of the first)",
                "ms",
                [quantile(last, share)],
                [quantile(first, share)],
                at_most(limit, of_floor=True),
            )
            for which, share, limit in (("p50", 0.5, 1.5), ("p99", 0.99, 2.0))
        ),
        Figure(f"{name}: memory since a fifth of it", "MB", [_grown(memory)], aim=at_most(10)),
        Figure(f"{name}: the log at its longest", "MB", [max(log)], aim=at_most(_LONGEST_LOG_MB)),
    ]


def _grown(samples: Sequence[float]) -> float:
    return samples[-1] - samples[len(samples) // _PARTS]


@asynccontextmanager
async def _sampled(
    process: BrokerProcess, data: Path, samples: list[tuple[float, float]]
) -> AsyncIterator[None]:
    """Note the broker's memory and its log's length, in MB, until the block ends."""

    async def sample() -> None:
        while True:
            samples.append((memory_mb(process.pid), log_of(data).stat().st_size / 1e6))
            await asyncio.sleep(_SAMPLE_S)

    sampling = asyncio.create_task(sample())
    try:
        yield
    finally:
        sampling.cancel()


def log_of(data: Path) -> Path:
    """Return the path of SQLite's write-ahead log."""
    return data / f"{FILE_NAME}-wal"


async def deliveries(port: int, data: Path, rate: int, seconds: float) -> list[Delivered]:
    """Send to two levels in turns at a steady pace, and return the messages received, by due time."""
    count = int(rate * seconds)
    got_us: dict[int, int] = {}
    all_there = asyncio.get_running_loop().create_future()

    def pulled(opaque: int, head: bytes, body: bytes) -> bytes | None:
        now_us = wall_us()
        if check(head, (0, 19, 20)) == 0:
            got_us.update((record.queue_offset, now_us) for record in decode_records(body))
        if len(got_us) == count:
            all_there.set_result(None)
            return None
        return pull_frame(opaque + 1, 0, number_in(head, b"nextBeginOffset"), wait_ms=15_000)

    producer = await connect(HOST, port, acknowledged)
    consumer = await connect(HOST, port, pulled)
    started = perf_counter()
    await producer.ask(send_frame(0, level=1))  # creates the topic
    consumer.write(pull_frame(1, 0, 0, wait_ms=15_000))
    number = 1
    while number < count:
        while number < min(count, (perf_counter() - started) * rate):
            producer.write(send_frame(number, level=1 + number % 2))
            number += 1
        await asyncio.sleep(TICK_S)
    lost = (producer.ended, consumer.ended)  # a refused send or pull ends its connection
    await asyncio.wait((all_there, *lost), return_when=asyncio.FIRST_COMPLETED)
    for ended in lost:
        if ended.done():
            ended.result()
    producer.close()
    consumer.close()
    return [
        Delivered(row["due_us"], row["picked_us"], row["delivered_us"], got_us[row["queue_offset"]])
        for row in rows(data, _STAGES)
    ]
