"""The app: opens the store, the broker and its doors, and closes them in the opposite order."""

import logging
import platform
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from mocketmq import __version__
from mocketmq.access.access import Access, access_of
from mocketmq.broker.broker import Broker
from mocketmq.broker.building import open_broker
from mocketmq.clock import Clock, rate_of, start_instant_us, wall_us
from mocketmq.connections.certificate import certificate_of
from mocketmq.connections.tls import Tls
from mocketmq.doors import Door, Doors
from mocketmq.errors import InvalidArgumentError, ListenError, SettingError
from mocketmq.grpc_proxy.server import GrpcServer
from mocketmq.http_api.faults import rule_of
from mocketmq.http_api.listener import HttpHandler, Listener
from mocketmq.http_api.server import HttpServer
from mocketmq.ready_file import ReadyFile
from mocketmq.remoting.listening.ports import bind_ports, store_host_of
from mocketmq.remoting.listening.server import RemotingServer
from mocketmq.schedule.level_table import LevelTable
from mocketmq.schedule.profile import profile_named
from mocketmq.schedule.timed_scheme import OpenScheme
from mocketmq.settings import Settings
from mocketmq.store.counters import Run, read_past
from mocketmq.store.database import MEMORY, Database
from mocketmq.store.lock import DirectoryLock
from mocketmq_compat import address_discovery
from mocketmq_compat.aliyun_http import door as aliyun_http
from mocketmq_compat.delay.opening import open_second_directories

log = logging.getLogger(__name__)

DEFAULT_GRPC_PORT: Final = Settings().grpc_port

DELAY_SCHEMES: Final[Sequence[OpenScheme]] = (open_second_directories,)
"""Delay schemes for absolute due times. The first one that claims a message keeps it."""


class Emulator:
    """A running emulator. Made by :func:`running_emulator`."""

    def __init__(
        self, settings: Settings, broker: Broker, http: HttpServer, remoting: RemotingServer | None, run: int
    ) -> None:
        self.settings = settings
        self.broker = broker
        self.http = http
        self.remoting = remoting  # None when it is switched off
        self.run = run

    @property
    def doors(self) -> Doors:
        """Every port that is listened on, and its address."""
        return self.http.doors

    @property
    def url(self) -> str:
        """Where the JSON API listens."""
        return self.doors.http.address

    @property
    def aliyun_url(self) -> str | None:
        """Where Aliyun's HTTP protocol listens by itself; the JSON API's port serves it as well."""
        return _address(self.doors.aliyun)

    @property
    def namesrv_address(self) -> str | None:
        """``host:port`` of the name server, unless remoting is off."""
        return _address(self.doors.namesrv)

    @property
    def broker_address(self) -> str | None:
        """``host:port`` of the broker, unless remoting is off."""
        return _address(self.doors.broker)

    @property
    def grpc_address(self) -> str | None:
        """``host:port`` for clients of RocketMQ 5, unless gRPC is off."""
        return _address(self.doors.grpc)


def _address(door: Door | None) -> str | None:
    return None if door is None else door.address


@asynccontextmanager
async def running_emulator(settings: Settings) -> AsyncIterator[Emulator]:
    """Start an emulator, and stop it at the end: listeners, timers, last commit, store.

    Raises SettingError, ListenError or a StoreError when it cannot start; nothing is left open then.
    """
    table = LevelTable.parse(settings.levels)
    access = access_of(settings)
    async with AsyncExitStack() as stack:
        if settings.data != MEMORY:
            stack.callback(DirectoryLock(Path(settings.data)).close)
        ready_file = ReadyFile(settings.ready_file) if settings.ready_file else None
        database = await Database.open(settings.data, settings.durability)
        stack.push_async_callback(database.close)
        ports = bind_ports(settings) if settings.remoting else None
        if ports is not None:
            stack.callback(ports.close)
        broker, run = await _open_broker(settings, table, database, store_host_of(settings, ports), stack)
        tls = Tls(settings.tls, certificate_of(settings))
        remoting = None if ports is None else RemotingServer(broker, settings, ports, tls, access)
        if remoting is not None:
            stack.push_async_callback(remoting.close)
            await remoting.start()
        by_segment, listeners = _protocols(broker, settings, access, remoting)
        more_metrics = [remoting.metrics] if remoting is not None else []
        more_doors = remoting.doors if remoting is not None else {}
        grpc = GrpcServer(broker, settings, tls, access) if settings.grpc else None
        if grpc is not None:
            stack.push_async_callback(grpc.close)
            if await _has_started(grpc):
                more_metrics.append(grpc.metrics)
                more_doors["grpc"] = grpc.door
        http = HttpServer(broker, settings, run, by_segment, listeners, more_metrics, more_doors)
        stack.push_async_callback(http.close)
        await http.start()
        # Long polls and streams end before the listeners wait for their handlers.
        stack.callback(broker.consuming.polls.close)
        stack.callback(broker.watching.live.close)
        stack.callback(broker.faults.close)
        await _declare_faults(settings, broker)
        http.is_ready = True
        if ready_file is not None:
            ready_file.write(http.doors)
            stack.callback(ready_file.remove)
        try:
            yield Emulator(settings, broker, http, remoting, run)
        finally:
            http.is_ready = False


async def _has_started(grpc: GrpcServer) -> bool:
    """Start the door. If others have the port that nobody chose, the broker goes on without it.

    Raises ListenError.
    """
    try:
        await grpc.start()
    except ListenError as error:
        if grpc.port != DEFAULT_GRPC_PORT:
            raise
        log.warning("clients that speak gRPC are not served: %s", error)
        return False
    return True


async def _open_broker(
    settings: Settings, table: LevelTable, database: Database, store_host: str, stack: AsyncExitStack
) -> tuple[Broker, int]:
    """The broker, with a clock that goes on where the last run's stood, and the number of this run."""
    past = await read_past(database)
    started_wall_us = wall_us()
    started_us = start_instant_us(settings.clock, started_wall_us, past.last_us, past.mark)
    clock = Clock(rate_of(settings.clock), started_us, wall_start_us=started_wall_us)
    profile = profile_named(settings.profile, started_us)
    run = Run(
        past.run + 1,
        started_wall_us,
        started_us,
        __version__,
        platform.node(),
        profile.name,
        clock.mode,
        table.text,
        settings.durability,
    )
    broker = await stack.enter_async_context(
        open_broker(settings, database, store_host, clock, past, run, table, profile, DELAY_SCHEMES)
    )
    return broker, run.run


async def _declare_faults(settings: Settings, broker: Broker) -> None:
    """Begin with the rules of the settings. Raises SettingError."""
    for index, table in enumerate(settings.faults):
        try:
            await broker.faults.declare_rule(rule_of(table), index + 1)
        except InvalidArgumentError as error:
            raise SettingError(
                f"faults[{index}].{error.field}", table.get(error.field), error.allowed
            ) from None


def _protocols(
    broker: Broker, settings: Settings, access: Access | None, remoting: RemotingServer | None
) -> tuple[dict[str, HttpHandler], list[Listener]]:
    """What is served beside the JSON API, by first segment of the path, and on ports of its own."""
    namesrv_port = None if remoting is None else remoting.namesrv_port
    aliyun = aliyun_http.AliyunDoor(broker, settings, access).answer
    by_segment = {
        aliyun_http.SEGMENT: aliyun,
        address_discovery.SEGMENT: address_discovery.address_discovery(
            settings.namesrv_address, namesrv_port
        ),
    }
    port = settings.aliyun_port
    return by_segment, [] if port is None else [Listener("aliyun", port, by_segment, aliyun)]
