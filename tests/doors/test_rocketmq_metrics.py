"""The metrics of a real broker, after what clients did over remoting, gRPC and HTTP.

tests/differential/test_metrics.py compares them with a real broker's.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import ClientSession

from mocketmq.clock import US_PER_S
from tests.doors.remoting.consuming import SUBSCRIPTION, SUSPEND, pull_of
from tests.support.api import Api
from tests.support.brokers import GROUP, TOPIC
from tests.support.grpc import GrpcClient, running_grpc
from tests.support.metered import COMMITTED, PULLED, SIZES, VISIBLE, Scrape, play
from tests.support.remoting import RemotingClient, connected, running_remoting

NODE = {"cluster", "node_type", "node_id"}
STORAGE = NODE | {"storage_type", "storage_medium"}
STORED = NODE | {"topic", "message_type", "is_system"}
RECEIVED = NODE | {"topic", "consumer_group", "is_system"}
LAG = RECEIVED | {"is_retry"}

LABELS: dict[str, tuple[set[str], ...]] = {
    # BrokerMetricsManager.initStatsMetrics
    "rocketmq_processor_watermark": (NODE | {"processor"},),
    "rocketmq_broker_permission": (NODE,),
    "rocketmq_topic_number": (NODE,),
    "rocketmq_consumer_group_number": (NODE,),
    # initRequestMetrics; AbstractSendMessageProcessor, SendMessageProcessor, ScheduleMessageService,
    # DefaultPullMessageResultHandler, PopMessageProcessor
    "rocketmq_messages_in_total": (STORED,),
    "rocketmq_throughput_in_total": (STORED,),
    "rocketmq_message_size_bucket": (STORED | {"le"},),
    "rocketmq_message_size_count": (STORED,),
    "rocketmq_message_size_sum": (STORED,),
    "rocketmq_messages_out_total": (RECEIVED, LAG),
    "rocketmq_throughput_out_total": (RECEIVED, LAG),
    # initConnectionMetrics
    "rocketmq_producer_connections": (NODE | {"language", "version", "protocol_type"},),
    "rocketmq_consumer_connections": (
        NODE | {"consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"},
    ),
    # initLagAndDlqMetrics
    "rocketmq_consumer_lag_messages": (LAG,),
    "rocketmq_consumer_lag_latency_milliseconds": (LAG,),
    "rocketmq_consumer_inflight_messages": (LAG,),
    "rocketmq_consumer_queueing_latency_milliseconds": (LAG,),
    "rocketmq_consumer_ready_messages": (LAG,),
    "rocketmq_send_to_dlq_messages_total": (RECEIVED,),
    # initTransactionMetrics; EndTransactionProcessor
    "rocketmq_half_messages": (NODE | {"topic"},),
    "rocketmq_commit_messages_total": (NODE | {"topic"},),
    "rocketmq_rollback_messages_total": (NODE | {"topic"},),
    "rocketmq_finish_message_latency_milliseconds_bucket": (NODE | {"topic", "le"},),
    "rocketmq_finish_message_latency_milliseconds_count": (NODE | {"topic"},),
    "rocketmq_finish_message_latency_milliseconds_sum": (NODE | {"topic"},),
    # RemotingMetricsManager, NettyRemotingAbstract.writeResponse
    **{
        f"rocketmq_rpc_latency_milliseconds_{part}": (
            NODE
            | {"protocol_type", "request_code", "response_code", "is_long_polling", "result"}
            | ({"le"} if part == "bucket" else set()),
        )
        for part in ("bucket", "count", "sum")
    },
    # DefaultStoreMetricsManager
    "rocketmq_storage_size_bytes": (STORAGE,),
    "rocketmq_storage_dispatch_behind_bytes": (STORAGE,),
    "rocketmq_storage_message_reserve_time_milliseconds": (STORAGE,),
    "rocketmq_timer_enqueue_total": (STORAGE | {"topic"},),
    "rocketmq_timer_dequeue_total": (STORAGE | {"topic"},),
    "rocketmq_timer_dequeue_latency_milliseconds": (STORAGE,),
    "rocketmq_timer_message_snapshot": (STORAGE | {"timer_bound_s"},),
    "rocketmq_delay_message_latency_seconds_bucket": (STORAGE | {"topic", "le"},),
    "rocketmq_delay_message_latency_seconds_count": (STORAGE | {"topic"},),
    "rocketmq_delay_message_latency_seconds_sum": (STORAGE | {"topic"},),
    # ProxyMetricsManager
    "rocketmq_proxy_up": (NODE | {"proxy_mode"},),
}
"""Names and labels as of RocketMQ 5.3.3, each group after the class that registers it."""


class Metered(NamedTuple):
    """A broker with clients of three protocols."""

    api: Api
    client: RemotingClient
    grpc: GrpcClient

    async def scrape(self) -> Scrape:
        return Scrape.of((await self.api.call("GET", "/metrics")).body.decode())

    async def advance(self, seconds: int) -> None:
        await self.api.emulator.broker.mover.advance(seconds * US_PER_S)


@asynccontextmanager
async def running_metered(**changed: Any) -> AsyncIterator[Metered]:
    async with running_grpc(**changed) as (emulator, grpc), ClientSession() as session:
        assert emulator.remoting
        async with connected("127.0.0.1", emulator.remoting.broker_port) as client:
            yield Metered(Api(emulator, session), client, grpc)


@pytest.fixture
async def metered() -> AsyncIterator[Metered]:
    async with running_metered() as metered:
        yield metered


async def test_messages_in_are_counted_by_topic_and_type(metered: Metered) -> None:
    await play(metered.client)
    await metered.advance(1)
    scrape = await metered.scrape()

    def stored(topic: str, kind: str) -> tuple[float, float]:
        labels = {"topic": topic, "message_type": kind, "is_system": str(topic != TOPIC).lower()}
        names = ("rocketmq_messages_in_total", "rocketmq_throughput_in_total")
        return tuple(scrape.value(name, **labels) for name in names)  # type: ignore[return-value]

    assert stored(TOPIC, "normal") == (5, sum(SIZES[:-1]) + 20)
    assert stored(TOPIC, "fifo") == (1, SIZES[-1])
    assert stored("SCHEDULE_TOPIC_XXXX", "delay") == stored(TOPIC, "delay") == (1, 20)
    assert stored("RMQ_SYS_TRANS_HALF_TOPIC", "transaction") == (3, 90)
    assert len(scrape.values("rocketmq_messages_in_total")) == 5
    name, labels = "rocketmq_message_size_bucket", {"topic": TOPIC, "message_type": "fifo"}
    bounds = ("1024.0", "4096.0", "524288.0", "1048576.0", "2097152.0", "4194304.0", "+Inf")
    assert [scrape.value(name, **labels, le=bound) for bound in bounds] == [0, 0, 1, 1, 1, 1, 1]


async def test_received_messages_and_lag(metered: Metered) -> None:
    await play(metered.client)
    await metered.advance(1)
    await metered.advance(4)
    scrape = await metered.scrape()
    pulled = {"topic": TOPIC, "consumer_group": GROUP, "is_system": "false"}
    assert scrape.value("rocketmq_messages_out_total", **pulled) == PULLED
    assert scrape.value("rocketmq_throughput_out_total", **pulled) == sum(SIZES)
    over = {"topic": "SCHEDULE_TOPIC_XXXX", "consumer_group": "SCHEDULE_CONSUMER", "is_system": "true"}
    assert scrape.value("rocketmq_messages_out_total", **over) == 1
    assert scrape.value("rocketmq_send_to_dlq_messages_total", **pulled) == 1
    lag = pulled | {"is_retry": "false"}
    assert scrape.value("rocketmq_consumer_lag_messages", **lag) == VISIBLE - COMMITTED
    assert scrape.value("rocketmq_consumer_lag_latency_milliseconds", **lag) == 5_000


async def test_popped_messages_are_in_flight_and_then_retries(metered: Metered) -> None:
    for _ in range(3):
        await metered.grpc.send(metered.grpc.message("four", TOPIC))
    await metered.advance(2)
    [first] = await metered.grpc.receive(GROUP, TOPIC, batch_size=1, invisible_s=10)
    lag = {"topic": TOPIC, "consumer_group": GROUP, "is_retry": "false"}
    scrape = await metered.scrape()
    names = [f"rocketmq_consumer_{what}_messages" for what in ("lag", "inflight", "ready")]
    assert [scrape.value(name, **lag) for name in names] == [3, 1, 2]
    latencies = [f"rocketmq_consumer_{what}_latency_milliseconds" for what in ("lag", "queueing")]
    assert [scrape.value(name, **lag) for name in latencies] == [2_000, 2_000]
    assert scrape.value("rocketmq_messages_out_total", **lag) == 1
    await metered.advance(10)
    again = await metered.grpc.receive(GROUP, TOPIC)
    scrape = await metered.scrape()
    assert [scrape.value(name, **lag) for name in names] == [3, 3, 0]
    assert [scrape.value(name, **lag) for name in latencies] == [12_000, 0]
    assert scrape.value("rocketmq_messages_out_total", **lag) == 3
    assert scrape.value("rocketmq_messages_out_total", **lag | {"is_retry": "true"}) == 1
    assert len(again) == 3
    assert first.system_properties.message_id in {one.system_properties.message_id for one in again}
    await metered.grpc.ack(*again, group=GROUP, topic=TOPIC)
    scrape = await metered.scrape()
    assert [scrape.value(name, **lag) for name in (*names, *latencies)] == [0, 0, 0, 0, 0]


async def test_transactions(metered: Metered) -> None:
    await play(metered.client)
    scrape = await metered.scrape()
    for name in ("half_messages", "commit_messages_total", "rollback_messages_total"):
        assert scrape.value(f"rocketmq_{name}", topic=TOPIC) == 1
    bounds = ("5.0", "60.0", "600.0", "3600.0", "43200.0", "86400.0", "+Inf")
    name = "rocketmq_finish_message_latency_milliseconds_bucket"
    assert [scrape.value(name, topic=TOPIC, le=bound) for bound in bounds] == [1] * 7


async def test_timers(tmp_path: Path) -> None:
    async with running_metered(data=str(tmp_path)) as metered:
        await _check_timers(metered)


async def _check_timers(metered: Metered) -> None:
    await metered.grpc.send(metered.grpc.message("late", TOPIC, delay_s=90))
    await metered.api.send(TOPIC, delay_ms=7_200_000)
    scrape = await metered.scrape()
    assert scrape.value("rocketmq_timer_enqueue_total", topic=TOPIC) == 2
    assert scrape.values("rocketmq_timer_dequeue_total") == []
    bounds = ("5", "60", "300", "900", "3600", "14400", "28800", "86400")
    name = "rocketmq_timer_message_snapshot"
    assert [scrape.value(name, timer_bound_s=bound) for bound in bounds] == [0, 0, 1, 0, 0, 1, 0, 0]
    name = "rocketmq_delay_message_latency_seconds_bucket"
    delays = ("60.0", "600.0", "3600.0", "43200.0", "86400.0", "259200.0", "+Inf")
    assert [scrape.value(name, topic=TOPIC, le=bound) for bound in delays] == [0, 1, 1, 2, 2, 2, 2]
    labels = {"topic": "rmq_sys_wheel_timer", "message_type": "delay", "is_system": "true"}
    assert scrape.value("rocketmq_messages_in_total", **labels) == 2
    await metered.advance(90)
    scrape = await metered.scrape()
    assert scrape.value("rocketmq_timer_dequeue_total", topic=TOPIC) == 1
    assert scrape.value("rocketmq_timer_dequeue_latency_milliseconds") == 0


async def test_connections_by_language_and_version(metered: Metered) -> None:
    await play(metered.client)
    scrape = await metered.scrape()
    client = {"language": "java", "version": "v4_9_8", "protocol_type": "remoting"}
    assert scrape.value("rocketmq_producer_connections", **client) == 1
    consumer = client | {"consumer_group": GROUP, "consume_mode": "push", "is_system": "false"}
    assert scrape.value("rocketmq_consumer_connections", **consumer) == 1
    await metered.client.close()
    while metered.api.emulator.broker.registry.clients.find_connected_group(GROUP):
        await metered.api.ok("GET", "/healthz")
    scrape = await metered.scrape()
    assert scrape.values("rocketmq_producer_connections") == []
    assert scrape.values("rocketmq_consumer_connections") == []


async def test_requests_by_code_and_whether_they_waited(metered: Metered) -> None:
    await play(metered.client)
    name = "rocketmq_rpc_latency_milliseconds_count"
    labels = {"protocol_type": "remoting", "result": "success", "is_long_polling": "false"}
    sent = labels | {"request_code": "send_message_v2", "response_code": "success"}
    assert (await metered.scrape()).value(name, **sent) == len(SIZES) + 4
    waiting = metered.client.ask(11, _suspended())
    while not metered.api.emulator.broker.polls.count:
        await metered.api.ok("GET", "/healthz")
    await metered.api.send(TOPIC, queue_id=0)
    assert (await waiting).code == 0
    scrape = await metered.scrape()
    pulled = {"request_code": "pull_message", "response_code": "success"}
    assert scrape.value(name, **labels | pulled) == 1
    assert scrape.value(name, **labels | pulled | {"is_long_polling": "true"}) == 1


async def test_names_and_labels_are_those_of_a_real_broker(tmp_path: Path) -> None:
    async with running_metered(data=str(tmp_path)) as metered:
        await play(metered.client)
        # The first gRPC call may take seconds. A message that arrived after its due time would be no timer.
        await metered.grpc.send(metered.grpc.message("late", TOPIC, delay_s=90))
        await metered.advance(90)
        await metered.grpc.receive(GROUP, TOPIC)
        scrape = await metered.scrape()
    assert scrape.series.keys() == LABELS.keys()
    for name, labels in LABELS.items():
        assert scrape.label_names(name) == set(map(frozenset, labels)), name
    assert {dict(key)["node_type"] for key in scrape.series["rocketmq_proxy_up"]} == {"proxy"}


async def test_without_grpc_there_is_no_proxy() -> None:
    async with running_remoting(grpc=False) as remoting, ClientSession() as session:
        answer = await Api(remoting.emulator, session).call("GET", "/metrics")
        assert "rocketmq_proxy_up" not in Scrape.of(answer.body.decode()).series


async def test_counts_of_deleted_topics_and_groups_are_dropped(metered: Metered) -> None:
    await play(metered.client)
    await metered.api.ok("DELETE", f"/v1/groups/{GROUP}")
    assert (await metered.scrape()).values("rocketmq_messages_out_total", consumer_group=GROUP) == []
    await metered.api.ok("DELETE", f"/v1/topics/{TOPIC}")
    scrape = await metered.scrape()
    assert [name for name in scrape.series if scrape.values(name, topic=TOPIC)] == []


def _suspended() -> dict[str, str]:
    """The ext fields of a pull that waits at the end of the queue."""
    return pull_of(VISIBLE - 1, SUBSCRIPTION | SUSPEND, suspendTimeoutMillis=30_000)
