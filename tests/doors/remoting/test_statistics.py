"""Tools ask for the broker's throughput: 28, 315 and 907."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.registry.statistics import MINUTE_US
from tests.doors.remoting.consuming import SEND_BACK, commit, pull
from tests.doors.remoting.inspection import RUNTIME, STATS, look
from tests.doors.remoting.producing import sent
from tests.support.brokers import GROUP, TOPIC, S, give_back, receive, send
from tests.support.patience import PATIENCE_S
from tests.support.remoting import Remoting, RemotingClient, running_remoting

HA_STATUS = 907
TOPIC_OF_GROUP = f"{TOPIC}@{GROUP}"


async def sums(client: RemotingClient, name: str, key: str) -> tuple[int, int, int]:
    """Return the sums of the last minute, hour and day."""
    found = await look(client, STATS, statsName=name, statsKey=key)
    assert all(each["tps"] > 0 for each in found.values())
    minute, hour, day = (found[f"stats{span}"]["sum"] for span in ("Minute", "Hour", "Day"))
    return minute, hour, day


async def missing(client: RemotingClient, name: str, key: str) -> bool:
    """Whether the statistic is missing, reported in upstream's words."""
    answer = await client.call(STATS, {"statsName": name, "statsKey": key})
    assert answer.code in (0, 1)
    return (answer.code, answer.remark) == (1, f"The stats <{name}> <{key}> not exist")


async def runtime(remoting: Remoting) -> dict[str, str]:
    """Return the runtime statistics, which are all text."""
    table: dict[str, str] = json.loads((await remoting.client.ok(RUNTIME)).body)["table"]
    assert all(isinstance(value, str) for value in table.values())
    return table


async def test_the_broker_is_a_master_without_slaves() -> None:
    async with running_remoting() as remoting:
        await sent(remoting.client)
        of_slaves = ("lastReadTimestamp", "lastWriteTimestamp", "masterFlushOffset", "maxOffset")
        assert json.loads((await remoting.client.ok(HA_STATUS)).body) == {
            "haClientRuntimeInfo": dict.fromkeys((*of_slaves, "transferredByteInSecond"), 0),
            "haConnectionInfo": [],
            "inSyncSlaveNums": 0,
            "master": True,
            "masterCommitLogMaxOffset": int((await runtime(remoting))["commitLogMaxOffset"]),
        }


async def test_stored_and_pulled_messages_are_counted() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        for n in range(5):
            await sent(client, b"12345678", queue_id=n % 2)
        await pull(client, 0, maxMsgNums=2)
        await pull(client, 0, queueId=1, maxMsgNums=1)
        await pull(client, 3)  # finds no message
        assert await sums(client, "TOPIC_PUT_NUMS", TOPIC) == (5, 5, 5)
        assert await sums(client, "TOPIC_PUT_SIZE", TOPIC) == (40, 40, 40)
        assert await sums(client, "GROUP_GET_NUMS", TOPIC_OF_GROUP) == (3, 3, 3)
        assert await sums(client, "GROUP_GET_SIZE", TOPIC_OF_GROUP) == (24, 24, 24)
        assert await sums(client, "BROKER_PUT_NUMS", "DefaultCluster") == (5, 5, 5)
        assert await sums(client, "BROKER_GET_NUMS", "DefaultCluster") == (3, 3, 3)
        got = await look(client, STATS, statsName="GROUP_GET_NUMS", statsKey=TOPIC_OF_GROUP)
        assert got["statsDay"]["avgpt"] == 1.5  # two pulls found something
        assert not await missing(client, "GROUP_GET_LATENCY", TOPIC_OF_GROUP)


async def test_received_messages_count_like_pulled_ones() -> None:
    async with running_remoting() as remoting:
        for n in range(5):
            await send(remoting.broker, str(n))
        taken = await receive(remoting.broker, 3)
        assert len(taken) == 3
        assert await receive(remoting.broker, topic="other") == []
        assert await sums(remoting.client, "GROUP_GET_NUMS", TOPIC_OF_GROUP) == (3, 3, 3)
        table = await runtime(remoting)
        assert (table["msgPutTotalTodayNow"], table["msgGetTotalTodayNow"]) == ("5", "3")


async def test_message_ending_a_waiting_pull_counts_once() -> None:
    async with running_remoting() as remoting:
        await remoting.broker.registry.topics.ensure(TOPIC, 1)
        waiting = remoting.client.ask(
            11,
            {
                "consumerGroup": GROUP,
                "topic": TOPIC,
                "queueId": "0",
                "queueOffset": "0",
                "maxMsgNums": "32",
                "sysFlag": "6",
                "commitOffset": "0",
                "suspendTimeoutMillis": "10000",
                "subscription": "*",
                "subVersion": "0",
            },
        )
        async with asyncio.timeout(PATIENCE_S):
            while not remoting.broker.polls.count:
                await look(remoting.client, RUNTIME)
        await send(remoting.broker, queue=0)
        assert (await waiting).code == 0
        assert await sums(remoting.client, "GROUP_GET_NUMS", TOPIC_OF_GROUP) == (1, 1, 1)


async def test_messages_given_back_are_counted() -> None:
    async with running_remoting() as remoting:
        for n in range(2):
            await send(remoting.broker, str(n), queue=0)
        first, second = await receive(remoting.broker)
        await give_back(remoting.broker, [first])
        await remoting.client.ok(
            SEND_BACK, {"offset": str(second.message.log_offset), "group": GROUP, "delayLevel": "0"}
        )
        assert await sums(remoting.client, "SNDBCK_PUT_NUMS", TOPIC_OF_GROUP) == (2, 2, 2)
        await remoting.broker.mover.advance(10 * S)
        retried, _ = await receive(remoting.broker)
        await give_back(remoting.broker, [retried])
        assert await sums(remoting.client, "SNDBCK_PUT_NUMS", TOPIC_OF_GROUP) == (3, 3, 3)


async def test_a_delayed_message_records_its_parked_and_target_queues() -> None:
    async with running_remoting() as remoting:
        await send(remoting.broker, "level", level=2)
        await send(remoting.broker, "time", TIMER_DELAY_SEC="7")
        assert await sums(remoting.client, "TOPIC_PUT_NUMS", "SCHEDULE_TOPIC_XXXX") == (1, 1, 1)
        assert await sums(remoting.client, "TOPIC_PUT_SIZE", "rmq_sys_wheel_timer") == (4, 4, 4)
        assert await missing(remoting.client, "TOPIC_PUT_NUMS", TOPIC)
        table = await runtime(remoting)
        assert table["scheduleMessageOffset_2"] == "0,1"
        assert float(table["timerEnqueueTps"]) > 0
        assert (table["timerCongestNum"], table["timerDequeueTps"]) == ("1", "0.0")
        await remoting.broker.mover.advance(7 * S)
        assert await sums(remoting.client, "TOPIC_PUT_SIZE", TOPIC) == (9, 9, 9)
        table = await runtime(remoting)
        assert table["scheduleMessageOffset_2"] == "1,1"
        assert table["scheduleMessageOffset_18"] == "0,0"
        assert table["timerCongestNum"] == "0"
        assert float(table["timerDequeueTps"]) > 0


async def test_batches_are_stored_or_refused() -> None:
    async with running_remoting() as remoting:
        await remoting.broker.sender.send_batch([])
        assert (await runtime(remoting))["putMessageTimesTotal"] == "0"
        answer = await remoting.client.call(310, {"a": "makers", "b": "bad topic"}, b"x")
        assert answer.code
        assert await missing(remoting.client, "TOPIC_PUT_NUMS", "bad topic")


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("TOPIC_PUT_NUMS", "nowhere"),
        ("GROUP_GET_NUMS", TOPIC),
        ("GROUP_GET_NUMS", f"{GROUP}@{TOPIC}"),
        ("SNDBCK_PUT_NUMS", ""),
        ("BROKER_PUT_NUMS", "broker-a"),
        ("GROUP_GET_FALL_SIZE", TOPIC_OF_GROUP),
        ("no such name", TOPIC),
    ],
)
async def test_unknown_statistic_is_reported_as_missing(name: str, key: str) -> None:
    async with running_remoting() as remoting:
        await send(remoting.broker)
        await receive(remoting.broker)
        assert await missing(remoting.client, name, key)


async def test_running_statistics_match_the_store(tmp_path: Path) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        started_ms = remoting.broker.clock.now_us() // 1_000
        await remoting.broker.mover.advance(1 * S)
        for n in range(4):
            await send(remoting.broker, str(n) * 10, queue=0)
        await pull(remoting.client, 0, maxMsgNums=3)
        await pull(remoting.client, 4)
        await commit(remoting.client, 3)
        table = await runtime(remoting)
        expected = {
            "brokerVersion": "513",
            "brokerVersionDesc": "V5_5_0",
            "brokerActive": "true",
            "putMessageTimesTotal": "4",
            "putMessageSizeTotal": "40",
            "putMessageAverageSize": "10.0",
            "putMessageFailedTimes": "0",
            "msgPutTotalTodayMorning": "0",
            "msgPutTotalTodayNow": "4",
            "msgGetTotalTodayNow": "3",
            "commitLogMinOffset": "0",
            "commitLogMaxOffset": "4",
            "earliestMessageTimeStamp": str(started_ms + 1_000),
            "dispatchBehindBytes": "0",
        }
        assert expected.items() <= table.items()
        rates = {name: [float(each) for each in table[name].split(" ")] for name in table if "Tps" in name}
        assert all(len(each) == 3 for name, each in rates.items() if not name.startswith("timer"))
        found, missed = rates["getFoundTps"], rates["getMissTps"]
        assert found == pytest.approx(missed, rel=0.5)  # one pull for each
        assert rates["getTransferredTps"] == rates["getTransferedTps"] > found
        assert rates["putTps"][0] > rates["getTransferredTps"][0]
        assert 0 < float(table["commitLogDiskRatio"]) < 1
        assert table["commitLogDirCapacity"].startswith("Total : ")
        times = [int(each.rpartition(":")[2]) for each in table["putMessageDistributeTime"].split()]
        assert (len(times), sum(times)) == (13, 4)
        assert table["runtime"].startswith("[ 0 days, 0 hours, 0 minutes, ")


async def test_an_empty_broker_has_running_statistics() -> None:
    async with running_remoting() as remoting:
        table = await runtime(remoting)
        assert (table["earliestMessageTimeStamp"], table["putMessageAverageSize"]) == ("-1", "0.0")
        assert table["commitLogMinOffset"] == table["commitLogMaxOffset"] == "0"
        assert table["putTps"] == "0.0 0.0 0.0"


async def test_memory_store_reports_no_disk() -> None:
    """rocketmq-exporter 0.0.2 fails without the capacity."""
    async with running_remoting() as remoting:
        table = await runtime(remoting)
        assert table["commitLogDirCapacity"] == "Total : 0 B, Free : 0 B."
        assert table["commitLogDiskRatio"] == table["consumeQueueDiskRatio"] == "0.0"


async def test_rates_use_real_time_despite_clock_moves() -> None:
    async with running_remoting() as remoting:
        await send(remoting.broker)
        await remoting.broker.mover.advance(400 * 24 * 3_600 * S)
        assert await sums(remoting.client, "TOPIC_PUT_NUMS", TOPIC) == (1, 1, 1)
        assert (await runtime(remoting))["runtime"].startswith("[ 0 days, ")


@pytest.mark.interpreted
async def test_statistics_age_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mocketmq.broker.registry.statistics.Statistics.interval_s", 0.001)
    async with running_remoting() as remoting:
        statistics = remoting.broker.registry.statistics
        shift_us = 0
        ticks = statistics.ticks
        statistics.ticks = lambda: ticks() + shift_us
        await send(remoting.broker)
        shift_us = 3 * MINUTE_US  # no sample lies in the last minute any more
        meter: Any = statistics.topics[TOPIC]
        async with asyncio.timeout(PATIENCE_S):
            while statistics.window(meter, MINUTE_US).added.messages:
                await look(remoting.client, RUNTIME)
                shift_us += MINUTE_US


async def test_deleted_topics_and_groups_have_no_statistics() -> None:
    async with running_remoting() as remoting:
        for topic in (TOPIC, "kept"):
            await send(remoting.broker, topic=topic)
            await receive(remoting.broker, topic=topic)
        await remoting.broker.reset.delete_topic(TOPIC)
        assert await missing(remoting.client, "TOPIC_PUT_NUMS", TOPIC)
        assert await missing(remoting.client, "GROUP_GET_NUMS", TOPIC_OF_GROUP)
        assert not await missing(remoting.client, "GROUP_GET_NUMS", f"kept@{GROUP}")
        await remoting.broker.consuming_groups.delete(GROUP, clean_offsets=True)
        assert await missing(remoting.client, "GROUP_GET_NUMS", f"kept@{GROUP}")
        assert not await missing(remoting.client, "TOPIC_PUT_NUMS", "kept")
