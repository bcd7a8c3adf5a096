"""Shows one statistic of a topic, a group or the broker (BrokerStatsManager.java, 4.9.8)."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from mocketmq.broker.registry.statistics import DAY_US, HOUR_US, MINUTE_US, Meter, Statistics, Totals
from mocketmq.clock import US_PER_MS
from mocketmq.message.names import CLUSTER
from mocketmq.remoting.access_rule import reads
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.fastjson import dumps
from mocketmq.remoting.wire.header import RequestHeader


class StatisticHeader(RequestHeader):
    """``stats_key`` is a topic, ``topic@group``, or the name of the cluster."""

    stats_name: str
    stats_key: str


class _Statistic(NamedTuple):
    """A statistic: how to find its meter by the key, and which of the meter's amounts to show."""

    meter: Callable[[Statistics, str], Meter | None]
    amount: Callable[[Totals], int]


def _by_group(meters: Mapping[tuple[str, str], Meter], key: str) -> Meter | None:
    topic, _, group = key.partition("@")
    return meters.get((topic, group))


def _messages(totals: Totals) -> int:
    return totals.messages


def _size(totals: Totals) -> int:
    return totals.size


def _took_ms(totals: Totals) -> int:
    return totals.took_us // US_PER_MS


_KINDS: Final = {
    "TOPIC_PUT_NUMS": _Statistic(lambda all_, key: all_.topics.get(key), _messages),
    "TOPIC_PUT_SIZE": _Statistic(lambda all_, key: all_.topics.get(key), _size),
    "GROUP_GET_NUMS": _Statistic(lambda all_, key: _by_group(all_.groups, key), _messages),
    "GROUP_GET_SIZE": _Statistic(lambda all_, key: _by_group(all_.groups, key), _size),
    "GROUP_GET_LATENCY": _Statistic(lambda all_, key: _by_group(all_.groups, key), _took_ms),
    "SNDBCK_PUT_NUMS": _Statistic(lambda all_, key: _by_group(all_.given_back, key), _messages),
    "BROKER_PUT_NUMS": _Statistic(lambda all_, key: all_.put if key == CLUSTER else None, _messages),
    "BROKER_GET_NUMS": _Statistic(lambda all_, key: all_.got if key == CLUSTER else None, _messages),
}


STATISTICS: Final = RequestFamily("Statistics")


@Request(STATISTICS, RequestCode.VIEW_BROKER_STATS_DATA, access=reads(), is_for_slaves=True)
async def view(call: RemotingCall[StatisticHeader]) -> Response:
    """Return one statistic for the last minute, hour and day."""
    name, key = call.header.stats_name, call.header.stats_key
    statistics, kind = call.broker.registry.statistics, _KINDS.get(name)
    meter = kind.meter(statistics, key) if kind else None
    if kind is None or meter is None:
        raise RemotingError(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
    body = {}
    for field, span_us in (("statsMinute", MINUTE_US), ("statsHour", HOUR_US), ("statsDay", DAY_US)):
        window = statistics.window(meter, span_us)
        amount, calls = kind.amount(window.added), window.added.calls
        body[field] = {
            "avgpt": amount / calls if calls else 0.0,
            "sum": amount,
            "tps": window.per_second(amount),
        }
    return Response(body=dumps(body))
