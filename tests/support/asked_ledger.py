"""The ledger of docs/questions.md: two hours of a broker with a manual clock, always the same."""

from pathlib import Path

from mocketmq import Client
from tests.support.process import forked_broker


async def leave_asked_ledger(data: Path) -> None:
    """Run a broker in ``data``. Faults make some deliveries late, and some messages stay unacknowledged."""
    async with (
        forked_broker("--data", str(data), "--clock", "manual") as process,
        Client(process.url) as broker,
    ):
        await broker.move_to("2036-01-01T08:00:00Z")
        await broker.add_fault("deliver-late", name="slow-payments", topic="payments", by="2500ms", every=2)
        await broker.add_fault("throttle", name="narrow", topic="reports", per_second=2)
        for topic, level, count in (
            ("orders", 3, 6),
            ("payments", 5, 4),
            ("reports", 14, 5),
            ("orders", 17, 3),
        ):
            for number in range(count):
                await broker.send(topic, f"{topic} {number}", delay_level=level)
        await broker.send("orders", "absolute", delay="30m")
        cancelled = await broker.send("orders", "cancelled", delay="90m")
        await broker.cancel(cancelled["message_id"])
        await broker.advance("10s")
        await _work(broker, "orders", "billing", 6, "400ms")
        await broker.advance("10m")
        await _work(broker, "payments", "ledger", 3, "9s")
        await broker.advance("1h")
        await _work(broker, "orders", "billing", 1, "600ms")
        await broker.advance("49m")


async def _work(broker: Client, topic: str, group: str, count: int, each: str) -> None:
    """Consume some messages one after another, each of which takes some time."""
    for _ in range(count):
        messages = await broker.receive(topic, group=group, invisible="5m")
        assert len(messages) == 1
        await broker.advance(each)
        await broker.acknowledge(group, messages)
