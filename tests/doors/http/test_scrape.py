"""A scrape of many topics: its size, and what it holds up."""

import asyncio
import sys
import time
from types import FrameType

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mocketmq.broker.broker import Broker
from mocketmq.http_api import metrics
from mocketmq.message.message import Message
from mocketmq.rocketmq_family import MAX_SERIES
from tests.support.api import Api
from tests.support.loop_turns import MS, long_turns

TOPICS = 3_000
GROUPS = ("billing", "audit")  # with all topics they make more series than a family may have
MAX_SHARE = 0.03
"""Limit on the longest turn, as a share of the CPU time of the whole text: twice what was seen."""


async def fill(broker: Broker) -> None:
    """Send a message to each topic, and let two groups receive it."""
    for first in range(0, TOPICS, 500):
        topics = [f"topic-{number}" for number in range(first, first + 500)]
        await asyncio.gather(*(broker.sender.send(Message(topic, b"body", {})) for topic in topics))
        for group in GROUPS:
            await asyncio.gather(
                *(
                    broker.receiver.receive(group, topic, max_messages=1, invisible_us=30_000_000)
                    for topic in topics
                )
            )


async def test_a_scrape_of_many_topics_is_bounded_and_holds_up_no_turn(api: Api) -> None:
    await fill(api.emulator.broker)
    await api.call("GET", "/metrics")  # imports what it needs
    with long_turns() as turns:
        answer = await api.call("GET", "/metrics")
    took_ms, name = max(turns)
    collect = await metrics.metric_families(api.emulator.http.api)
    began_ns = time.thread_time_ns()
    metrics._text_of(collect)
    assert took_ms < MAX_SHARE * (time.thread_time_ns() - began_ns) / MS, name
    assert len(answer.body) == int(answer.headers["Content-Length"]) < 15_000_000
    families = {family.name: family for family in text_string_to_metric_families(answer.body.decode())}
    sent = families["rocketmq_messages_in"].samples
    assert sum(sample.value for sample in sent) == TOPICS
    for name in ("mocketmq_group_lag_messages", "rocketmq_consumer_lag_messages"):
        *_, rest = samples = families[name].samples
        assert len(samples) == MAX_SERIES + 1
        assert rest.labels["otel_metric_overflow"] == "true"
        assert sum(sample.value for sample in samples) == TOPICS * len(GROUPS)


async def test_one_scrape_is_made_at_a_time(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    making, most = 0, 0
    text_of = metrics._text_of

    def counting(collect: metrics.Collect) -> bytes:
        nonlocal making, most
        making += 1
        most = max(making, most)
        try:
            return text_of(collect)
        finally:
            making -= 1

    monkeypatch.setattr(metrics, "_text_of", counting)
    answers = await asyncio.gather(*(api.call("GET", "/metrics") for _ in range(8)))
    assert {answer.status for answer in answers} == {200}
    assert most == 1


@pytest.mark.interpreted
async def test_a_send_pays_three_calls_for_the_metrics(api: Api) -> None:
    broker = api.emulator.broker
    await broker.sender.send(Message("orders", b"first", {}))
    accepted = await broker.sender.intake.accept(Message("orders", b"body", {}))
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        broker.sender.intake.count(accepted)
    finally:
        sys.setprofile(None)
    assert calls == ["count", "count_stored", "record"]
    assert broker.registry.statistics.traffics[0].stored["orders", "normal"].count == 2


async def test_a_message_with_a_priority_counts_as_a_normal_one(api: Api) -> None:
    await api.ok("PUT", "/v1/topics/alarms", {"type": "priority"})
    await api.send("alarms", priority=2)
    text = (await api.call("GET", "/metrics")).body.decode()
    [line] = [line for line in text.splitlines() if line.startswith("rocketmq_messages_in_total")]
    assert 'topic="alarms"' in line
    assert 'message_type="normal"' in line
