"""Acknowledged sends through the JSON API of a broker in its own process."""

from tempfile import TemporaryDirectory

import msgspec

from tests.bench.figures import Figure, at_least
from tests.bench.floors import server
from tests.bench.http_client import posts_per_second
from tests.bench.load import BODY, TOPIC
from tests.bench.progress import rounds
from tests.support.process import broker_process

IN_FLIGHT = (1, 64, 256)
AIM = {64: at_least(0.7, of_floor=True)}
PATH = f"/v1/topics/{TOPIC}/messages"
MESSAGE = msgspec.json.encode({"body": BODY.decode(), "tag": "created", "keys": ["order-20240517"]})


async def measure(quick: bool) -> list[Figure]:
    """Sends a second; the floor is an empty handler."""
    seconds, count = (0.2, 1) if quick else (1.0, 5)
    sends: dict[int, list[float]] = {n: [] for n in IN_FLIGHT}
    floors: dict[int, list[float]] = {n: [] for n in IN_FLIGHT}
    for _ in rounds("sends over HTTP", count):
        with TemporaryDirectory(prefix="mocketmq-bench-") as data:
            async with broker_process("--data", data) as broker:
                await _load(broker.url, sends, seconds)
        async with server("empty_server") as url:
            await _load(url, floors, seconds)
    return [Figure(f"{n} in flight", "/s", sends[n], floors[n], AIM.get(n)) for n in IN_FLIGHT]


async def _load(url: str, rates: dict[int, list[float]], seconds: float) -> None:
    await posts_per_second(url, PATH, MESSAGE, 8, seconds / 4)  # first requests cost more
    for n in IN_FLIGHT:
        rates[n].append(await posts_per_second(url, PATH, MESSAGE, n, seconds))
