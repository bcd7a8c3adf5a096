"""What clients do before metrics are compared, and a scrape as families of series."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.record import decode_records
from tests.doors.remoting.consuming import MAX_OFFSET, SEND_BACK, beat, commit, consumer, place, pull
from tests.doors.remoting.half_messages import COMMIT, END, ROLLBACK, ending, prepare
from tests.doors.remoting.producing import BATCH, batch, sent
from tests.support.brokers import GROUP, TOPIC
from tests.support.patience import PATIENCE_S
from tests.support.remoting import RemotingClient

Labels = frozenset[tuple[str, str]]

SIZES = (100, 100, 100, 5_000)
"""Sizes of the bodies that are sent without a delay, before two of 10 bytes in a batch."""
VISIBLE = len(SIZES) + 2 + 2
"""Messages in the queue at the end: those, a delayed one, and a committed one."""
PULLED, COMMITTED = len(SIZES), 2


async def play(client: RemotingClient) -> None:
    """Send messages of each kind to one queue, receive some, make a dead letter, and end two transactions."""
    await client.ok(
        RequestCode.HEART_BEAT, body=beat(consumer(), client=f"{client.address}@1", producers=("makers",))
    )
    for size in SIZES[:-1]:
        await sent(client, b"x" * size)
    await sent(client, b"x" * SIZES[-1], properties={"__SHARDINGKEY": "k"})
    await sent(client, batch((b"y" * 10, {}), (b"z" * 10, {})), BATCH)
    await sent(client, b"w" * 20, properties={"DELAY": "1"})
    halves = [await prepare(client, b"v" * 30, queue_id=0) for _ in range(3)]
    for half, decision in zip(halves, (COMMIT, ROLLBACK), strict=False):
        await client.ok(END, ending(half, decision))
    records = decode_records((await pull(client, maxMsgNums=PULLED)).body)
    assert [len(record.body) for record in records] == list(SIZES)
    given = {"offset": str(records[0].log_offset), "group": GROUP, "delayLevel": "-1"}
    await client.ok(SEND_BACK, {**given, "originTopic": TOPIC, "unitMode": "false"})
    await commit(client, COMMITTED)


async def wait_for_the_delayed_message(client: RemotingClient) -> None:
    """Wait until all messages are visible, by the real clock."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await client.ok(MAX_OFFSET, place(0, TOPIC, None))
            if answer.ext["offset"] == str(VISIBLE):
                return
            await asyncio.sleep(0.05)


class Scrape(NamedTuple):
    """Metrics by the name of their family: its type, and its series."""

    kinds: Mapping[str, str]
    series: Mapping[str, Mapping[Labels, float]]

    @classmethod
    def of(cls, text: str) -> "Scrape":
        """Parse Prometheus' text format; only RocketMQ's names."""
        kinds: dict[str, str] = {}
        series: dict[str, dict[Labels, float]] = {}
        for family in text_string_to_metric_families(text):
            if family.name.startswith("rocketmq_"):
                for sample in family.samples:
                    kinds[sample.name] = family.type
                    series.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
        return cls(kinds, series)

    def value(self, name: str, **labels: str) -> float:
        """The value of the only series with these labels."""
        [found] = self.values(name, **labels)
        return found

    def values(self, name: str, **labels: str) -> list[float]:
        """The values of all series with these labels."""
        return [value for key, value in self.series.get(name, {}).items() if labels.items() <= set(key)]

    def label_names(self, name: str) -> set[frozenset[str]]:
        """The sets of labels that its series have."""
        return {frozenset(label for label, _ in key) for key in self.series.get(name, {})}
