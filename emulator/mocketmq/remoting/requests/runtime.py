"""The broker's runtime figures (AdminBrokerProcessor.java, 4.9.8 and 5.3.3).

Figures about parts that mocketmq does not have are 0: no request waits in a thread pool, no message is
dispatched or flushed after its acknowledgement, and an in-memory store has no disk.
"""

import shutil
from collections.abc import Callable
from typing import Final

from mocketmq.broker.broker import Broker
from mocketmq.broker.registry.statistics import HOUR_US, MINUTE_US, Meter, Totals
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.message.names import TIMER_TOPIC
from mocketmq.remoting.access_rule import KEY
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.fastjson import dumps
from mocketmq.remoting.wire.header import NoHeader
from mocketmq.rocketmq_versions import version_name
from mocketmq.settings import Settings
from mocketmq.store.database import MEMORY

_SPANS_US: Final = (10 * US_PER_S, MINUTE_US, HOUR_US // 6)
"""Periods of rates: the last ten seconds, minute and ten minutes."""
_TIMES: Final = (
    *("[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]"),
    *("[1~2s]", "[2~3s]", "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]"),
)
_POOLS: Final = ("pull", "litePull", "query", "ack")
_UNLIMITED: Final = (1 << 31) - 1
_OF_SLAVES: Final = (
    *("lastReadTimestamp", "lastWriteTimestamp", "masterFlushOffset", "maxOffset"),
    "transferredByteInSecond",
)


RUNTIME: Final = RequestFamily("Running statistics")


@Request(RUNTIME, RequestCode.GET_BROKER_RUNTIME_INFO, access=KEY, is_for_slaves=True)
async def runtime_info(call: RemotingCall[NoHeader]) -> Response:
    """Return all figures, by name."""
    broker = call.broker
    table = {
        "brokerActive": "true",
        "brokerVersion": str(call.settings.server_version),
        "brokerVersionDesc": version_name(call.settings.server_version),
        **_started(broker),
        **_traffic(broker),
        **_store(broker, call.settings, await broker.group_progress.oldest()),
        **_pools(broker),
        **_delayed(broker),
    }
    return Response(body=dumps({"table": table}))


@Request(RUNTIME, RequestCode.GET_BROKER_HA_STATUS, access=KEY, is_for_slaves=True)
async def ha_status(call: RemotingCall[NoHeader]) -> Response:
    """Answer like a master without slaves. As in the runtime figures, the log offset counts messages."""
    status = {
        "haClientRuntimeInfo": dict.fromkeys(_OF_SLAVES, 0),
        "haConnectionInfo": [],
        "inSyncSlaveNums": 0,
        "master": True,
        "masterCommitLogMaxOffset": call.broker.store.writer.next_log_offset,
    }
    return Response(body=dumps(status))


def _started(broker: Broker) -> dict[str, str]:
    minutes, seconds = divmod(broker.registry.statistics.age_us // US_PER_S, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return {
        "bootTimestamp": str(broker.registry.statistics.started_wall_us // US_PER_MS),
        "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]",
        "startAcceptSendRequestTimeStamp": "0",
    }


def _traffic(broker: Broker) -> dict[str, str]:
    counts = broker.registry.statistics
    put, daily = counts.put, counts.daily
    found, missed = (_rates(broker, meter, _calls) for meter in (counts.found, counts.missed))
    transferred = _joined(_rates(broker, counts.found, _messages))
    return {
        "putTps": _joined(_rates(broker, put, _messages)),
        "getFoundTps": _joined(found),
        "getMissTps": _joined(missed),
        "getTotalTps": _joined([a + b for a, b in zip(found, missed, strict=True)]),
        "getTransferedTps": transferred,  # misspelt as in 4.x
        "getTransferredTps": transferred,
        "putMessageTimesTotal": str(put.messages),
        "putMessageFailedTimes": str(broker.store.writer.failures),
        "putMessageSizeTotal": str(put.size),
        "putMessageAverageSize": str(put.size / max(put.messages, 1)),
        "putMessageEntireTimeMax": str(counts.longest_put_us // US_PER_MS),
        "putMessageDistributeTime": "".join(
            f"{name}:{count} " for name, count in zip(_TIMES, counts.put_times, strict=True)
        ),
        "getMessageEntireTimeMax": str(counts.longest_read_us // US_PER_MS),
        "msgPutTotalYesterdayMorning": str(daily.put_yesterday),
        "msgPutTotalTodayMorning": str(daily.put_today),
        "msgPutTotalTodayNow": str(put.messages),
        "msgGetTotalYesterdayMorning": str(daily.got_yesterday),
        "msgGetTotalTodayMorning": str(daily.got_today),
        "msgGetTotalTodayNow": str(counts.got.messages),
    }


def _store(broker: Broker, settings: Settings, oldest: tuple[int, int] | None) -> dict[str, str]:
    """Figures about the store. Log offsets count messages, not bytes, as in message ids."""
    end = broker.store.writer.next_log_offset
    oldest_offset, oldest_ms = oldest or (end, -1)
    total, used, free = (0, 0, 0) if settings.data == MEMORY else shutil.disk_usage(settings.data)
    ratio = str(used / max(total, 1))
    return {
        "commitLogMinOffset": str(oldest_offset),
        "commitLogMaxOffset": str(end),
        "earliestMessageTimeStamp": str(oldest_ms),
        "commitLogDirCapacity": f"Total : {_human(total)}, Free : {_human(free)}.",
        "commitLogDiskRatio": ratio,
        "consumeQueueDiskRatio": ratio,
        "dispatchBehindBytes": "0",
        "dispatchMaxBuffer": "0",
        "pageCacheLockTimeMills": "0",
        "remainHowManyDataToCommit": _human(0),
        "remainHowManyDataToFlush": _human(0),
        "remainTransientStoreBufferNumbs": str(_UNLIMITED),
    }


def _pools(broker: Broker) -> dict[str, str]:
    """Figures about thread pools. The queue of the send pool is the writer's queue."""
    table = {
        "sendThreadPoolQueueSize": str(broker.store.writer.waiting),
        "sendThreadPoolQueueCapacity": str(broker.store.writer.limits.waiting),
        "sendThreadPoolQueueHeadWaitTimeMills": "0",
        "EndTransactionQueueSize": "0",
        "EndTransactionThreadPoolQueueCapacity": "0",
    }
    for pool in _POOLS:
        for what in ("Size", "Capacity", "HeadWaitTimeMills"):
            table[f"{pool}ThreadPoolQueue{what}"] = "0"
    return table


def _delayed(broker: Broker) -> dict[str, str]:
    """The delay offset and next offset of each level, and figures about timers."""
    table = {
        f"scheduleMessageOffset_{level.level}": f"{level.delay_offset},{level.max_offset}"
        for level in broker.levels.states()
    }
    timed, counts = broker.schemes.timed_figures(), broker.registry.statistics
    late_us = 0
    if timed.oldest_overdue_us is not None:
        late_us = max(broker.clock.now_us() - timed.oldest_overdue_us, 0)
    kept = counts.topics.get(TIMER_TOPIC)
    return table | {
        "timerReadBehind": str(late_us // US_PER_S),
        "timerOffsetBehind": "0",
        "timerCongestNum": str(timed.pending),
        "timerEnqueueTps": str(_rates(broker, kept, _messages)[0] if kept else 0.0),
        "timerDequeueTps": str(_rates(broker, counts.fired, _messages)[0]),
    }


def _rates(broker: Broker, meter: Meter, amount: Callable[[Totals], int]) -> list[float]:
    windows = (broker.registry.statistics.window(meter, span_us) for span_us in _SPANS_US)
    return [window.per_second(amount(window.added)) for window in windows]


def _joined(rates: list[float]) -> str:
    return " ".join(map(str, rates))


def _messages(totals: Totals) -> int:
    return totals.messages


def _calls(totals: Totals) -> int:
    return totals.calls


def _human(size: int) -> str:
    """Format a number of bytes as RocketMQ does."""
    amount, unit = float(size), ""
    for unit in ("", "Ki", "Mi", "Gi", "Ti", "Pi"):
        if amount < 1024 or unit == "Pi":
            break
        amount /= 1024
    return f"{amount:.1f} {unit}B" if unit else f"{size} B"
