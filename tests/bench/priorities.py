"""Receives by priority with many waiting messages, beside receives from a topic without priorities."""

from tempfile import TemporaryDirectory
from time import perf_counter

from mocketmq.broker.broker import Broker
from mocketmq.broker.registry.topic import PERM_READ, PERM_WRITE
from mocketmq.broker.registry.topic_config import PLAIN
from mocketmq.broker.sending.sender import MAX_BATCH
from mocketmq.message.properties import PRIORITY
from tests.bench.figures import Figure, at_most
from tests.bench.load import order
from tests.bench.progress import rounds, say
from tests.support.brokers import receive, running_broker

PRIORITIES = 10
LIMIT = 32
AIM = at_most(1.5, of_floor=True)


async def measure(quick: bool) -> list[Figure]:
    """Milliseconds of a receive of 32 messages, by turns from each topic, with a new group each round."""
    waiting, count, receives = (10_000, 2, 20) if quick else (100_000, 9, 200)
    taken_ms: dict[str, list[float]] = {"priority": [], "normal": []}
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        async with running_broker(data, clock="real") as broker:
            for kind in taken_ms:
                await _fill(broker, kind, waiting)
            for number in rounds("receives by priority", count):
                for kind, taken in taken_ms.items():
                    taken.append(await _receive(broker, kind, f"group-{kind}-{number}", receives))
    name = f"a receive of {LIMIT}, {waiting:,} waiting in {PRIORITIES} priorities"
    return [Figure(name, "ms", taken_ms["priority"], taken_ms["normal"], AIM)]


async def _fill(broker: Broker, kind: str, waiting: int) -> None:
    """Send the messages to ten queues of a topic of this type, which is also its name."""
    rights = PERM_READ | PERM_WRITE
    await broker.registry.topics.put(kind, PRIORITIES, PRIORITIES, rights, PLAIN.typed(kind))
    for start in range(0, waiting, MAX_BATCH):
        messages = [order(topic=kind) for _ in range(start, start + MAX_BATCH)]
        for number, message in enumerate(messages):
            message.queue_id = number % PRIORITIES
            if kind == "priority":
                message.properties[PRIORITY] = str(message.queue_id)
        await broker.sender.send_batch(messages)
    say(f"{waiting:,} messages wait in {kind}")


async def _receive(broker: Broker, kind: str, group: str, receives: int) -> float:
    """Return the mean milliseconds of a receive."""
    await receive(broker, LIMIT, group=group, topic=kind)  # creates the group
    started = perf_counter()
    for _ in range(receives):
        assert len(await receive(broker, LIMIT, group=group, topic=kind)) == LIMIT
    return (perf_counter() - started) / receives * 1e3
