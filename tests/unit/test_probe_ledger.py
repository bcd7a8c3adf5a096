"""A probe's conclusions for broker behaviour that no test can produce with a real broker."""

import asyncio
from collections.abc import Sequence
from typing import Any

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.probe.cluster import Delay, Poll, ProbedBroker, ProbedCluster, ReceivedProbe, SentProbe
from mocketmq.probe.probe_ledger import ProbeLedger
from mocketmq.probe.probing import Plan, Probing
from tests.support.patience import PATIENCE_S

NOW_MS = 1_795_219_200_000
BROKER = ProbedBroker("broker-a", "127.0.0.1:10911")
IN_A_SECOND = Delay(US_PER_S)


class Nowhere(ProbedCluster):
    """A cluster that is never asked."""

    def __init__(self) -> None:
        super().__init__()
        self.brokers = [BROKER]

    async def open(self, topic: str, group: str) -> None:
        raise NotImplementedError

    async def send(self, sent: SentProbe, size: int) -> None:
        raise NotImplementedError

    def polls(self) -> Sequence[Poll]:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


class Repeating(Nowhere):
    """A cluster that delivers each message at once, but never as a first delivery."""

    def __init__(self) -> None:
        super().__init__()
        self._stored: asyncio.Queue[SentProbe] = asyncio.Queue()
        self.polls_begun = 0

    async def open(self, topic: str, group: str) -> None:
        pass

    async def send(self, sent: SentProbe, size: int) -> None:  # noqa: ARG002
        sent.answered_us, sent.is_stored = sent.sent_us, True
        self._stored.put_nowait(sent)

    def polls(self) -> Sequence[Poll]:
        return [self._poll]

    async def _poll(self) -> Sequence[ReceivedProbe]:
        self.polls_begun += 1
        sent = await self._stored.get()
        return [ReceivedProbe(sent.key, sent.sent_us, sent.due_ms, tells_first_delivery=False)]

    async def close(self) -> None:
        pass


def found(*received: dict[str, Any], ahead_ms: int = 0) -> ProbeLedger:
    """Return the ledger of messages that are due in a second, sent and stored within 1 ms."""
    plan = Plan("orders", "billing", (), (US_PER_S,), len(received), 10, 10, US_PER_S)
    probing = Probing(plan, Nowhere(), lambda *_: None)
    probing.delays = [IN_A_SECOND]
    for number, given in enumerate(received):
        key, now_us = str(number), NOW_MS * US_PER_MS
        stored_ms = NOW_MS + ahead_ms
        probing.sent[key] = SentProbe(
            key, BROKER, IN_A_SECOND, NOW_MS + 1_000, now_us, now_us + US_PER_MS, True, stored_ms=stored_ms
        )
        at_us = (given["delivered_ms"] - ahead_ms) * US_PER_MS
        probing.received[key].append(ReceivedProbe(key, at_us, **given))
    return ProbeLedger(probing)


def late_ms(ledger: ProbeLedger) -> list[float]:
    return [((row.delivered_us or 0) - row.due_us) / US_PER_MS for row in ledger.rows]


def test_due_times_follow_the_broker_clock() -> None:
    ledger = found({"delivered_ms": NOW_MS + 1_007}, ahead_ms=400)
    assert late_ms(ledger) == [7]
    assert ledger.error_us == US_PER_MS
    assert not ledger.notes


def test_early_messages_are_reported() -> None:
    ledger = found({"delivered_ms": NOW_MS + 1_002}, {"delivered_ms": NOW_MS + 900})
    assert late_ms(ledger) == [2, -100]
    assert ledger.notes == [
        "1 messages arrived early, by up to 100ms: some brokers round due times down, and some ignore due"
        " times and deliver at once"
    ]


def test_messages_due_before_they_were_stored_are_left_out() -> None:
    ledger = found({"delivered_ms": NOW_MS + 3_000}, ahead_ms=3_000)
    assert not ledger.rows
    assert ledger.notes == ["1 messages were due before broker broker-a had stored them, and are left out"]


def test_due_times_moved_with_the_clock_are_consistent_everywhere() -> None:
    hour_ms = 3_600_000
    moved = [{"delivered_ms": NOW_MS + 1_000 + hour_ms + late} for late in (3, 8)]
    ledger = found(*moved, ahead_ms=hour_ms)
    [offset] = ledger.offsets.values()
    assert ledger.error_us == US_PER_MS + offset.error_us
    assert all(
        abs(got - late) * US_PER_MS <= ledger.error_us
        for got, late in zip(late_ms(ledger), (3, 8), strict=True)
    )
    assert ledger.notes == ["broker broker-a shifts due times by the lead of its clock, as mocketmq does"]
    ledger = found(*moved, {"delivered_ms": NOW_MS + hour_ms}, ahead_ms=hour_ms)  # one message was not moved
    assert len(ledger.rows) == 0


def test_gap_between_polls_enlarges_the_error() -> None:
    heard = {"delivered_ms": NOW_MS + 1_050, "waited_from_us": NOW_MS * US_PER_MS}
    unheard = {"delivered_ms": NOW_MS + 1_050, "waited_from_us": (NOW_MS + 1_040) * US_PER_MS}
    assert found(heard).error_us == US_PER_MS
    assert found(heard, unheard).error_us == 50 * US_PER_MS
    assert late_ms(found(unheard)) == [50]


async def test_message_of_unknown_first_delivery_is_left_out() -> None:
    cluster = Repeating()
    plan = Plan("orders", "billing", (), (US_PER_S,), 3, 100, 10, 3_600 * US_PER_S)
    probing = Probing(plan, cluster, lambda *_: None)
    async with asyncio.timeout(PATIENCE_S):
        await probing.run(asyncio.Event())
    assert probing.repeated == set(probing.sent)
    assert cluster.polls_begun == len(probing.sent)  # no poll began after the last message
    ledger = ProbeLedger(probing)
    assert not ledger.rows
    assert ledger.notes == [
        f"{len(probing.sent)} messages are left out: they were redelivered, and the cluster does not"
        " report their first delivery"
    ]
