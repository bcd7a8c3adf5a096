"""The metrics of a cluster name the broker of each figure, as those of real brokers do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession

from mocketmq.clock import US_PER_S
from mocketmq.settings import BrokerDeclaration
from tests.doors.remoting.broker_pairs import A, B, Pair, running_pair, send
from tests.doors.remoting.consuming import SEND_BACK, beat, commit, consumer, pull
from tests.doors.remoting.half_messages import COMMIT, END, ROLLBACK, ending, prepare
from tests.support.api import Api
from tests.support.brokers import GROUP, TOPIC
from tests.support.metered import Scrape
from tests.support.remoting import running_remoting

CONSUMED = {"topic": TOPIC, "consumer_group": GROUP}


class Cluster:
    """Two brokers with their clients, and their metrics."""

    def __init__(self, pair: Pair, api: Api) -> None:
        self.pair = pair
        self.api = api

    async def text(self) -> str:
        answer: bytes = (await self.api.call("GET", "/metrics")).body
        return answer.decode()

    async def scrape(self) -> Scrape:
        return Scrape.of(await self.text())


@asynccontextmanager
async def running_cluster(**changed: Any) -> AsyncIterator[Cluster]:
    async with running_pair(**changed) as pair, ClientSession() as session:
        yield Cluster(pair, Api(pair.remoting.emulator, session))


def by_node(scrape: Scrape, name: str, **labels: str) -> dict[str, float]:
    """The value of the only series with these labels of each broker that has one."""
    return {node: value for node in (A, B) for value in scrape.values(name, node_id=node, **labels)}


def named(scrape: Scrape) -> set[str]:
    """The brokers that the series name."""
    return {dict(labels)["node_id"] for series in scrape.series.values() for labels in series}


async def test_traffic_and_lag_are_those_of_each_broker() -> None:
    async with running_cluster() as cluster:
        pair = cluster.pair
        for client, messages in ((pair.a, 1), (pair.b, 3)):
            for number in range(messages):
                await send(client, f"{number}")
        records = (await pull(pair.b, maxMsgNums=3)).body
        assert records
        await commit(pair.b, 2)
        scrape = await cluster.scrape()
        sent = {"topic": TOPIC, "message_type": "normal"}
        assert by_node(scrape, "rocketmq_messages_in_total", **sent) == {A: 1, B: 3}
        assert by_node(scrape, "rocketmq_throughput_in_total", **sent) == {A: 1, B: 3}
        assert by_node(scrape, "rocketmq_message_size_count", **sent) == {A: 1, B: 3}
        assert by_node(scrape, "rocketmq_messages_out_total", **CONSUMED) == {B: 3}
        lag = CONSUMED | {"is_retry": "false"}
        assert by_node(scrape, "rocketmq_consumer_lag_messages", **lag)[B] == 1
        own = [line for line in (await cluster.text()).splitlines() if line.startswith("mocketmq_group_lag")]
        assert f'mocketmq_group_lag_messages{{broker="{B}",group="{GROUP}",topic="{TOPIC}"}} 1.0' in own


async def test_retries_and_dead_letters_count_at_their_broker() -> None:
    async with running_cluster() as cluster:
        b = cluster.pair.b
        await send(b, "fails")
        [received] = await cluster.pair.broker.receiver.receive(
            GROUP, TOPIC, max_messages=1, invisible_us=30 * US_PER_S
        )
        given = {"offset": str(received.message.log_offset), "group": GROUP, "originTopic": TOPIC}
        for level in ("1", "-1"):
            await b.ok(SEND_BACK, {**given, "delayLevel": level, "unitMode": "false"})
        scrape = await cluster.scrape()
        popped = CONSUMED | {"is_retry": "false"}
        assert by_node(scrape, "rocketmq_messages_out_total", **popped) == {B: 1}
        assert by_node(scrape, "rocketmq_send_to_dlq_messages_total", **CONSUMED) == {B: 1}
        retrying = [
            line
            for line in (await cluster.text()).splitlines()
            if line.startswith("mocketmq_group_retrying") and line.endswith(" 1.0")
        ]
        assert retrying == [
            f'mocketmq_group_retrying_messages{{broker="{B}",group="{GROUP}",topic="%RETRY%{GROUP}"}} 1.0'
        ]


async def test_delays_and_transactions_count_at_their_broker() -> None:
    async with running_cluster(clock="manual") as cluster:
        pair = cluster.pair
        await send(pair.b, "level", DELAY="1")
        await send(pair.a, "timer", TIMER_DELAY_MS="1000")
        for client, decisions in ((pair.a, [COMMIT, None]), (pair.b, [COMMIT, ROLLBACK, COMMIT])):
            for decision in decisions:
                half = await prepare(client, b"half", queue_id=0)
                if decision is not None:
                    await client.ok(END, ending(half, decision))
        await pair.advance(1)
        scrape = await cluster.scrape()
        assert by_node(scrape, "rocketmq_commit_messages_total", topic=TOPIC) == {A: 1, B: 2}
        assert by_node(scrape, "rocketmq_rollback_messages_total", topic=TOPIC) == {B: 1}
        assert by_node(scrape, "rocketmq_half_messages", topic=TOPIC) == {A: 1}
        assert by_node(scrape, "rocketmq_timer_dequeue_total", topic=TOPIC) == {A: 1}
        delayed = {"topic": TOPIC, "message_type": "delay"}
        assert by_node(scrape, "rocketmq_messages_in_total", **delayed) == {B: 1}
        # Pending messages are counted once, under the first broker, so that a sum over brokers is right.
        assert set(by_node(scrape, "rocketmq_timer_message_snapshot", timer_bound_s="5")) == {A}


async def test_permissions_topics_clients_and_requests_of_each_broker() -> None:
    async with running_cluster() as cluster:
        pair = cluster.pair
        await pair.b.ok(34, body=beat(consumer(), client="b@1", producers=("makers",)))
        topics = by_node(await cluster.scrape(), "rocketmq_topic_number")
        await cluster.api.ok("PUT", "/v1/topics/at-b", {"brokers": [{"name": B}]})
        await pair.broker.broker_lives.set_read_only(A, is_read_only=True)
        scrape = await cluster.scrape()
        assert by_node(scrape, "rocketmq_broker_permission") == {A: 4, B: 6}
        assert by_node(scrape, "rocketmq_topic_number") == {A: topics[A], B: topics[B] + 1}
        assert by_node(scrape, "rocketmq_producer_connections", language="java") == {B: 1}
        assert by_node(scrape, "rocketmq_consumer_connections", consumer_group=GROUP) == {B: 1}
        beats = {"request_code": "heart_beat"}
        assert by_node(scrape, "rocketmq_rpc_latency_milliseconds_count", **beats) == {B: 1}


async def test_a_broker_that_is_down_has_no_metrics() -> None:
    async with running_cluster() as cluster:
        pair = cluster.pair
        await send(pair.a, "a")
        await send(pair.b, "b")
        await pull(pair.b)
        assert named(await cluster.scrape()) == {A, B}
        await pair.broker.broker_lives.crash(B)
        assert named(await cluster.scrape()) == {A}
        async with pair.back():
            sent = by_node(await cluster.scrape(), "rocketmq_messages_in_total", topic=TOPIC)
        assert sent == {A: 1, B: 1}


async def test_each_local_proxy_is_up() -> None:
    for mode, nodes in (("local", {A: 1.0, B: 1.0}), ("cluster", {A: 1.0})):
        async with running_cluster(proxy_mode=mode, grpc=True) as cluster:
            assert by_node(await cluster.scrape(), "rocketmq_proxy_up", proxy_mode=mode) == nodes


async def test_a_broker_that_is_declared_alone_has_its_own_name() -> None:
    declared = (BrokerDeclaration(name="orders-a"),)
    async with running_remoting(declared_brokers=declared) as remoting, ClientSession() as session:
        await send(remoting.client, "one")
        scrape = Scrape.of((await Api(remoting.emulator, session).call("GET", "/metrics")).body.decode())
    assert named(scrape) == {"orders-a"}
