"""The spans of messages' lives, as a collector gets them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mocketmq.clock import US_PER_MS, wall_us
from tests.doors.remoting.consuming import commit, pull
from tests.support.api import Api, running_api
from tests.support.brokers import GROUP, TOPIC, send
from tests.support.collector import CollectedSpan, Collector, running_collector
from tests.support.grpc import running_grpc
from tests.support.remoting import running_remoting

INTERNAL, SERVER = 1, 2
"""Values of Span.SpanKind."""
ERROR = 2
"""A value of Status.StatusCode."""
PRODUCER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
UNSAMPLED = PRODUCER[:-2] + "00"
S, MINUTE = 1_000, 60_000
"""In milliseconds."""


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with running_collector() as collector:
        yield collector


@pytest.fixture
async def api(collector: Collector) -> AsyncIterator[Api]:
    async with running_api(otlp_endpoint=collector.url) as api:
        yield api


async def advance(api: Api, by: str) -> None:
    await api.ok("POST", "/v1/clock/advance", {"by": by})


async def settle(api: Api, how: str, messages: list[dict[str, str]], group: str = GROUP) -> None:
    receipts = [one["receipt"] for one in messages]
    await api.ok("POST", f"/v1/groups/{group}/{how}", {"receipts": receipts})


def is_child(child: CollectedSpan, parent: CollectedSpan) -> bool:
    return (child.trace_id, child.parent_id) == (parent.trace_id, parent.span_id)


async def test_a_delayed_message_has_a_span_for_each_step_of_its_life(api: Api, collector: Collector) -> None:
    before_us = wall_us()
    sent = await api.send(body="late", delay_level=3, tag="paid", keys=["7", "8"])
    await advance(api, "1m")
    await settle(api, "ack", await api.receive())
    await collector.arrived("send", "park", "deliver", "receive", "settle")
    after_us = wall_us()
    send, park, deliver, receive, ack = map(collector.span, ("send", "park", "deliver", "receive", "settle"))
    assert send.parent_id == ""
    assert is_child(park, send)
    assert is_child(deliver, park)
    assert is_child(receive, deliver)
    assert is_child(ack, deliver)
    assert [span.kind for span in (send, park, deliver, receive, ack)] == [
        *(SERVER, INTERNAL, INTERNAL, SERVER, SERVER)
    ]
    common = {
        "messaging.system": "rocketmq",
        "messaging.destination.name": TOPIC,
        "messaging.destination.partition.id": str(sent["queue_id"]),
        "messaging.message.id": sent["message_id"],
        "messaging.message.body.size": 4,
        "messaging.rocketmq.message.type": "delay",
        "messaging.rocketmq.message.tag": "paid",
        "messaging.rocketmq.message.keys": ["7", "8"],
        "messaging.rocketmq.message.delay_time_level": 3,
        "mocketmq.clock.mode": "manual",
    }
    for span in collector.spans:
        assert span.name == f"{span.operation} {TOPIC}"
        assert common.items() <= span.attributes.items()
        # The wall clock's times, in order, although the broker's clock was a minute ahead at the end.
        assert before_us <= span.began_us <= span.ended_us <= after_us
        assert span.resource["service.name"] == "mocketmq"
    assert send.ended_us <= deliver.began_us <= receive.began_us <= ack.began_us
    assert (park.began_us, park.ended_us) == (send.ended_us, deliver.began_us)
    assert send.attributes["mocketmq.door"] == "http"
    assert deliver.attributes["mocketmq.lateness_us"] == 0
    assert deliver.attributes["mocketmq.scheme"] == "levels"
    assert deliver.attributes["messaging.rocketmq.message.delivery_timestamp"] == sent["due_ms"]
    start_ms = send.attributes["mocketmq.clock.start_ms"]
    assert (park.attributes["mocketmq.clock.start_ms"], park.attributes["mocketmq.clock.end_ms"]) == (
        *(start_ms, start_ms + 10 * S),
    )
    assert receive.attributes["mocketmq.clock.start_ms"] == start_ms + MINUTE
    for span, kind in ((send, "send"), (receive, "receive"), (ack, "settle")):
        assert span.attributes["messaging.operation.type"] == kind
    assert (receive.attributes["messaging.consumer.group.name"], receive.attributes["mocketmq.attempt"]) == (
        *(GROUP, 1),
    )
    assert (ack.attributes["messaging.consumer.group.name"], ack.attributes["mocketmq.outcome"]) == (
        *(GROUP, "acknowledged"),
    )


async def test_the_spans_continue_the_trace_of_the_producer(api: Api, collector: Collector) -> None:
    await api.send(properties={"traceparent": PRODUCER, "tracestate": "vendor=1,other=2"})
    [message] = await api.receive()
    assert message["properties"]["traceparent"] == PRODUCER  # of the producer, not of the broker
    await collector.arrived("send", "receive")
    send, receive = collector.span("send"), collector.span("receive")
    assert (send.trace_id, send.parent_id) == (PRODUCER[3:35], PRODUCER[36:52])
    assert is_child(receive, send)
    assert {span.trace_state for span in collector.spans} == {"vendor=1,other=2"}


async def test_the_trace_context_of_the_sdks_for_grpc_is_the_parent_too(collector: Collector) -> None:
    async with running_grpc(otlp_endpoint=collector.url) as (_, client):
        await client.send(client.message("traced", trace_context=PRODUCER))
        [message] = await client.receive()
        assert message.system_properties.trace_context == PRODUCER
        await client.ack(message)
        await collector.arrived("send", "receive", "settle")
    send, receive = collector.span("send"), collector.span("receive")
    assert (send.trace_id, send.parent_id) == (PRODUCER[3:35], PRODUCER[36:52])
    assert is_child(receive, send)
    assert send.attributes["mocketmq.door"] == "grpc"


async def test_a_trace_that_the_producer_does_not_record_has_no_spans(api: Api, collector: Collector) -> None:
    await api.send(body="a", properties={"traceparent": UNSAMPLED}, delay_level=1)
    await api.send(body="b", properties={"traceparent": UNSAMPLED}, delay="1s")
    await advance(api, "1s")
    await settle(api, "ack", await api.receive())
    await api.send(topic="others", properties={"traceparent": "00-0-1-01"})  # none, so a trace of its own
    [span] = await collector.arrived("send")
    assert (span.name, span.parent_id) == ("send others", "")


@pytest.mark.parametrize("scheme", ["directories", "wheel"])
async def test_a_message_outside_of_the_store_has_the_same_spans(
    collector: Collector, scheme: str, tmp_path: Path
) -> None:
    async with running_api(
        otlp_endpoint=collector.url, data=str(tmp_path / "data"), timed_scheme=scheme
    ) as api:
        await api.send(delay="90s", properties={"traceparent": PRODUCER})
        await collector.arrived("send")
        await advance(api, "2m")
        await collector.arrived("send", "park", "deliver")
    send, park, deliver = map(collector.span, ("send", "park", "deliver"))
    assert is_child(park, send)
    assert is_child(deliver, park)
    assert (park.began_us, park.ended_us) == (send.ended_us, deliver.began_us)
    assert deliver.attributes["mocketmq.scheme"] == scheme
    took_ms = park.attributes["mocketmq.clock.end_ms"] - park.attributes["mocketmq.clock.start_ms"]
    assert took_ms == 90 * S


@pytest.mark.parametrize("delay", [{"delay_level": 5}, {"delay": "1m"}])
async def test_the_wait_of_a_cancelled_message_ends(
    api: Api, collector: Collector, delay: dict[str, Any]
) -> None:
    sent = await api.send(**delay)
    await api.ok("DELETE", f"/v1/delayed/{sent['message_id']}")
    await collector.arrived("send", "park")
    park = collector.span("park")
    assert is_child(park, collector.span("send"))
    assert park.attributes["mocketmq.outcome"] == "cancelled"


async def test_the_wait_of_a_message_that_another_message_cancels_ends(collector: Collector) -> None:
    async with running_api(otlp_endpoint=collector.url, timed_scheme="slots") as api:
        sent = await api.send(delay="1m")
        await send(api.emulator.broker, TIMER_DEL_UNIQKEY=sent["message_id"], TIMER_DELAY_MS="1")
        await collector.arrived("send", "send", "park")
    park = collector.span("park")
    assert park.attributes["messaging.message.id"] == sent["message_id"]
    assert park.attributes["mocketmq.outcome"] == "cancelled"


async def test_a_message_that_fails_is_settled_each_time_and_ends_in_error(
    api: Api, collector: Collector
) -> None:
    await api.ok("PUT", f"/v1/groups/{GROUP}", {"max_retries": 1})
    await api.send()
    await settle(api, "give-back", await api.receive())
    await advance(api, "1h")
    await settle(api, "give-back", await api.receive())
    spans = await collector.arrived("send", "receive", "settle", "park", "deliver", "receive", "settle")
    send = collector.span("send")
    assert {span.trace_id for span in spans} == {send.trace_id}
    first, second = (span for span in spans if span.operation == "receive")
    assert is_child(first, send)
    assert is_child(second, collector.span("deliver"))
    assert [span.attributes["mocketmq.attempt"] for span in (first, second)] == [1, 2]
    given_back, dead = (span for span in spans if span.operation == "settle")
    assert (given_back.attributes["mocketmq.outcome"], given_back.status) == ("retried", 0)
    assert (dead.attributes["mocketmq.outcome"], dead.status) == ("dead", ERROR)
    assert {span.attributes["messaging.destination.name"] for span in spans} == {TOPIC}


async def test_spans_of_an_earlier_run_are_the_parents_of_later_ones(
    collector: Collector, tmp_path: Path
) -> None:
    settings = {"otlp_endpoint": collector.url, "data": str(tmp_path / "data")}
    async with running_api(**settings) as api:
        await api.send(delay_level=5)
    assert [span.operation for span in collector.spans] == ["send"]  # the last ones are not lost
    async with running_api(**settings) as api:
        await advance(api, "1m")
        await collector.arrived("send", "park", "deliver")
    park = collector.span("park")
    assert is_child(park, collector.span("send"))
    assert park.began_us == park.ended_us  # when the message was parked is not known any more


async def test_consumers_by_offset_receive_and_settle(collector: Collector) -> None:
    async with running_remoting(otlp_endpoint=collector.url) as remoting:
        await send(remoting.emulator.broker, "a", queue=0)
        await pull(remoting.client)
        await commit(remoting.client, 1)
        await collector.arrived("send", "receive", "settle")
    sent, receive, ack = map(collector.span, ("send", "receive", "settle"))
    assert is_child(receive, sent)
    assert is_child(ack, sent)
    assert ack.attributes["mocketmq.outcome"] == "acknowledged"


async def test_a_transaction_is_sent_and_committed_or_rolled_back(api: Api, collector: Collector) -> None:
    for how in ("commit", "rollback"):
        half = await api.ok("POST", f"/v1/topics/{TOPIC}/transactions", {"body": how, "group": "shop"})
        await api.ok("POST", f"/v1/transactions/{half['message_id']}/{how}")
    await collector.arrived("send", "commit", "send", "settle")
    commit, rollback = collector.span("commit"), collector.span("settle")
    assert rollback.attributes["mocketmq.outcome"] == "rolled back"
    parents = {span.span_id: span for span in collector.spans if span.operation == "send"}
    for span in (commit, rollback):
        assert parents[span.parent_id].trace_id == span.trace_id
        assert parents[span.parent_id].attributes["mocketmq.outcome"] == "prepared"


async def test_on_a_real_clock_a_wait_is_as_long_as_the_delay(collector: Collector) -> None:
    async with running_api(otlp_endpoint=collector.url, clock="real") as api:
        await api.send(delay="200ms")
        await collector.arrived("send", "park", "deliver")
    park, deliver = collector.span("park"), collector.span("deliver")
    assert park.attributes["mocketmq.clock.mode"] == "real"
    stored_us = park.attributes["mocketmq.clock.start_ms"] * US_PER_MS
    assert park.ended_us - stored_us >= 200 * US_PER_MS  # the span begins later, with the end of the send
    assert park.ended_us - park.began_us < 25_000_000
    assert abs(stored_us - park.began_us) < 25_000_000
    assert deliver.attributes["mocketmq.lateness_us"] >= 0
