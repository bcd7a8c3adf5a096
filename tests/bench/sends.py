"""Acknowledged sends by the broker's own API."""

from pathlib import Path
from tempfile import TemporaryDirectory

from mocketmq.lab.producer import per_second
from mocketmq.message.message import StoredMessage
from tests.bench.figures import Figure, at_least
from tests.bench.floors import FileLog
from tests.bench.load import order
from tests.bench.progress import rounds
from tests.support.brokers import running_broker

IN_FLIGHT = (1, 64, 256)
AIM = {64: at_least(0.4, of_floor=True)}


async def measure(quick: bool) -> list[Figure]:
    """Sends a second, and the same bytes appended to a file with one fdatasync per group."""
    seconds, count = (0.2, 2) if quick else (1.0, 5)
    sends: dict[int, list[float]] = {n: [] for n in IN_FLIGHT}
    floors: dict[int, list[float]] = {n: [] for n in IN_FLIGHT}
    for _ in rounds("sends", count):
        # A new broker for each round, so that none runs during the floor.
        with TemporaryDirectory(prefix="mocketmq-bench-") as data:
            record = await _send(data, seconds, sends)
            await _append(Path(data) / "floor.log", record, seconds, floors)
    return [Figure(f"{n} in flight", "/s", sends[n], floors[n], AIM.get(n)) for n in IN_FLIGHT]


async def _send(data: str, seconds: float, rates: dict[int, list[float]]) -> bytes:
    """Run one round, and return the size of a stored message."""
    async with running_broker(data, clock="real") as broker:
        sent = await broker.sender.send(order())
        for n in IN_FLIGHT:
            rates[n].append(await per_second(lambda: broker.sender.send(order()), n, seconds))
    return _record(sent.stored)


async def _append(path: Path, record: bytes, seconds: float, rates: dict[int, list[float]]) -> None:
    log = FileLog(path)
    for n in IN_FLIGHT:
        rates[n].append(await per_second(lambda: log.append(record), n, seconds))
    log.close()


def _record(stored: StoredMessage) -> bytes:
    texts = (field.encode() if isinstance(field, str) else field for field in stored)
    return b"".join(field if isinstance(field, bytes) else bytes(8) for field in texts)
