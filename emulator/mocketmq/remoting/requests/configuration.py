"""Shows and changes settings of the broker and the name server by RocketMQ's names, and cleans up on request.

The names come from BrokerConfig.java, NamesrvConfig.java and MessageStoreConfig.java of 4.9.8, except for
``enableMixedMessageType``, which comes from 5.3.3. A change lasts until the next start. The broker cannot
move timers or pops to another store while it runs, so the 5.x requests that do this succeed only if nothing
has to move.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from mocketmq.errors import InvalidArgumentError, shorten
from mocketmq.message.names import CLUSTER, MAX_QUEUES, REGION, TRACE_TOPIC
from mocketmq.remoting.access_rule import ADMIN, KEY, OPEN
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.fastjson import dumps
from mocketmq.remoting.wire.header import NoHeader, RequestHeader

log = logging.getLogger(__name__)

_US_PER_HOUR: Final = 3_600_000_000
_SWITCHES: Final = {"true": True, "false": False}


class TimerEngineHeader(RequestHeader):
    """``engine`` is the requested store of timers: F for files, R for RocksDB."""

    engine: str = ""


class _Changeable(NamedTuple):
    """How to parse and change a setting at run time. ``read`` raises KeyError or ValueError."""

    read: Callable[[str], Any]
    allowed: str
    make: Callable[[RemotingCall[Any], Any], Awaitable[None]]


async def _create_topics(call: RemotingCall[Any], value: bool) -> None:
    await call.broker.registry.used_topics.set_auto_create(is_on=value)


async def _create_groups(call: RemotingCall[Any], value: bool) -> None:
    call.broker.registry.groups.auto_create = value


async def _default_queues(call: RemotingCall[Any], value: int) -> None:
    call.broker.registry.used_topics.default_queues = value


async def _take_mixed(call: RemotingCall[Any], value: bool) -> None:
    call.broker.registry.topics.takes_mixed = value


async def _show_orders(call: RemotingCall[Any], value: bool) -> None:
    call.broker.registry.name_server.shows_orders = value


def _queues(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MAX_QUEUES:
        raise ValueError(text)
    return number


_BROKER_CHANGES: Final = {
    "autoCreateTopicEnable": _Changeable(_SWITCHES.__getitem__, "true or false", _create_topics),
    "autoCreateSubscriptionGroup": _Changeable(_SWITCHES.__getitem__, "true or false", _create_groups),
    "defaultTopicQueueNums": _Changeable(_queues, f"1 to {MAX_QUEUES}", _default_queues),
    "enableMixedMessageType": _Changeable(_SWITCHES.__getitem__, "true or false", _take_mixed),
}
_NAME_SERVER_CHANGES: Final = {
    "orderMessageEnable": _Changeable(_SWITCHES.__getitem__, "true or false", _show_orders),
}


CONFIGURATION: Final = RequestFamily("Configuration and cleaning")


@Request(CONFIGURATION, RequestCode.GET_BROKER_CONFIG, access=KEY, is_for_slaves=True)
async def broker_config(call: RemotingCall[NoHeader]) -> Response:
    """List the broker's settings, including those that cannot be changed in mocketmq."""
    version = dumps({"counter": 0, "stateVersion": 0, "timestamp": 0}).decode()
    return Response({"version": version}, _text(_of_broker(call)))


@Request(CONFIGURATION, RequestCode.UPDATE_BROKER_CONFIG, access=ADMIN)
async def update_broker(call: RemotingCall[NoHeader]) -> Response:
    """Change all named settings of the broker. If one of them cannot be changed, change none."""
    return await _update(call, _of_broker(call), _BROKER_CHANGES)


@Request(CONFIGURATION, RequestCode.GET_NAMESRV_CONFIG, access=OPEN)
async def name_server_config(call: RemotingCall[NoHeader]) -> Response:
    """List the name server's settings."""
    return Response(body=_text(_of_name_server(call)))


@Request(CONFIGURATION, RequestCode.UPDATE_NAMESRV_CONFIG, access=ADMIN)
async def update_name_server(call: RemotingCall[NoHeader]) -> Response:
    """Change all named settings of the name server. If one of them cannot be changed, change none."""
    return await _update(call, _of_name_server(call), _NAME_SERVER_CHANGES)


@Request(CONFIGURATION, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, access=ADMIN)
@Request(CONFIGURATION, RequestCode.CLEAN_UNUSED_TOPIC, access=ADMIN)
async def nothing_to_clean(call: RemotingCall[NoHeader]) -> Response:  # noqa: ARG001
    """Do nothing, because unused queues and topics leave nothing behind in mocketmq."""
    return Response(remark="nothing to clean: removal leaves no files behind")


@Request(CONFIGURATION, RequestCode.POP_ROLLBACK, access=ADMIN)
async def no_pops_to_move(call: RemotingCall[NoHeader]) -> Response:  # noqa: ARG001
    """Do nothing, as RocketMQ does unless it keeps pops in RocksDB."""
    return Response(remark="nothing to move: pops are not kept in RocksDB")


@Request(CONFIGURATION, RequestCode.SWITCH_TIMER_ENGINE, access=ADMIN, names={"engine": "E_T"})
async def switch_timer_engine(call: RemotingCall[TimerEngineHeader]) -> Response:
    """Succeed if timers are already in the requested engine, which only a restart can change."""
    engine = call.header.engine
    if engine not in ("F", "R"):
        raise RemotingError(
            ResponseCode.INVALID_PARAMETER,
            f"param error: E_T is {shorten(engine)}; allowed: F (files), R (RocksDB)",
        )
    if (engine == "R") != (call.settings.timed_scheme == "sorted"):
        raise RemotingError(
            ResponseCode.INVALID_PARAMETER,
            "timers cannot move while mocketmq runs: they are in RocksDB with --timed-scheme sorted,"
            f" otherwise in files; it is {call.settings.timed_scheme}",
        )
    return Response(remark="switch timer engine success")


@Request(CONFIGURATION, RequestCode.DELETE_EXPIRED_COMMITLOG, access=ADMIN)
async def remove_old(call: RemotingCall[NoHeader]) -> Response:
    """Remove messages whose retention time is over."""
    removed = await call.broker.retention.turn()
    return Response(remark=f"{removed} messages were removed")


def _of_broker(call: RemotingCall[Any]) -> Mapping[str, str]:
    broker, settings = call.broker, call.settings
    host, _, port = call.channel.advertised.rpartition(":")
    registered, is_slave = broker.registry.brokers[call.channel.share.position], call.channel.is_slave
    _, slave_port = registered.ports_by_role(is_promoted=registered.condition.is_promoted)
    return _sorted(
        brokerClusterName=CLUSTER,
        brokerName=registered.name,
        brokerId=registered.slave_id if is_slave else 0,
        brokerRole="SLAVE" if is_slave else "ASYNC_MASTER",
        brokerIP1=host.strip("[]"),
        listenPort=slave_port if is_slave else port,
        brokerPermission=6,
        regionId=REGION,
        autoCreateTopicEnable=broker.registry.used_topics.auto_create,
        autoCreateSubscriptionGroup=broker.registry.groups.auto_create,
        defaultTopicQueueNums=broker.registry.used_topics.default_queues,
        enableMixedMessageType=broker.registry.topics.takes_mixed,
        messageDelayLevel=broker.levels.table.text,
        maxMessageSize=settings.max_message_bytes,
        storePathRootDir=settings.data,
        flushDiskType="SYNC_FLUSH" if settings.durability == "full" else "ASYNC_FLUSH",
        fileReservedTime=settings.retain_age_us // _US_PER_HOUR,
        transactionTimeOut=settings.transaction_timeout_us // 1_000,
        transactionCheckInterval=settings.transaction_check_interval_us // 1_000,
        transactionCheckMax=settings.transaction_check_max,
        filterServerNums=0,
        longPollingEnable=True,
        slaveReadEnable=is_slave,
        traceOn=True,
        traceTopicEnable=True,
        msgTraceTopicName=TRACE_TOPIC,
        enablePropertyFilter=True,
        aclEnable=settings.acl is not None,
        useTLS=settings.tls != "disabled",
    )


def _of_name_server(call: RemotingCall[Any]) -> Mapping[str, str]:
    return _sorted(orderMessageEnable=call.broker.registry.name_server.shows_orders, clusterTest=False)


def _sorted(**values: object) -> Mapping[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in sorted(values.items())
    }


def _text(properties: Mapping[str, str]) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in properties.items()).encode()


async def _update(
    call: RemotingCall[Any], known: Mapping[str, str], changes: Mapping[str, _Changeable]
) -> Response:
    wanted = []
    for name, text in _properties(call.command.body).items():
        change = changes.get(name)
        if change is not None:
            try:
                wanted.append((change, change.read(text)))
            except (KeyError, ValueError):
                raise InvalidArgumentError(name, text, change.allowed) from None
        elif known.get(name) != text:
            raise RemotingError(
                ResponseCode.NO_PERMISSION,
                f"{shorten(name)} cannot be changed while mocketmq runs; only {', '.join(changes)} can",
            )
    for change, value in wanted:
        await change.make(call, value)
    log.info("changed until the next start: %s", shorten(call.command.body.decode("utf-8", "replace")))
    return Response(remark="changed until the next start")


def _properties(content: bytes) -> Mapping[str, str]:
    """Parse settings from lines of ``name=value``. Raises InvalidArgumentError."""
    lines = [line.strip() for line in content.decode("utf-8", "replace").splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    for name, equals, _ in pairs:
        if not equals or not name.strip():
            raise InvalidArgumentError("body", name, "lines of name=value")
    return {name.strip(): value.strip() for name, _, value in pairs}
