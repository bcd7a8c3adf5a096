"""The app: opens the store, the broker and the ports, and closes them in the opposite order."""

import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mocketmq.access.access import access_of
from mocketmq.broker.broker import Broker
from mocketmq.broker.building import open_broker
from mocketmq.broker.packs.pack_file import Pack
from mocketmq.broker.packs.packing import restore_pack
from mocketmq.door_tap import DoorTap
from mocketmq.errors import InvalidArgumentError, SettingError
from mocketmq.front_doors import open_front_doors
from mocketmq.grpc_proxy.server import GrpcServer
from mocketmq.http_api.faults import rule_of
from mocketmq.http_api.packs import events_of
from mocketmq.http_api.seeds import plant_declared
from mocketmq.http_api.server import HttpServer
from mocketmq.open_ports import OpenPort, OpenPorts
from mocketmq.ready_file import ReadyFile
from mocketmq.remoting.listening.ports import bind_ports, store_host_of
from mocketmq.remoting.listening.server import RemotingServer
from mocketmq.schedule.level_table import LevelTable
from mocketmq.schedule.timed_scheme import OpenScheme
from mocketmq.settings import Settings
from mocketmq.store.damage import naming_damage
from mocketmq.store.database import FILE_NAME, MEMORY, Database
from mocketmq.store.lock import DirectoryLock
from mocketmq.store.opening import open_database
from mocketmq_compat.delay.schemes import open_timed_scheme

if TYPE_CHECKING:
    from mocketmq.otlp.telemetry import Telemetry


@dataclass(eq=False, repr=False)
class Emulator:
    """A running emulator. :func:`mocketmq.running_emulator` creates it."""

    settings: Settings
    broker: Broker
    http: HttpServer
    remoting: RemotingServer | None  # None if switched off; so is ``grpc``
    grpc: GrpcServer | None

    @property
    def doors(self) -> OpenPorts:
        """Every open port and its address."""
        return self.http.doors

    @property
    def url(self) -> str:
        """The URL of the JSON API."""
        return self.doors.http.address

    @property
    def aliyun_url(self) -> str | None:
        """The URL of the extra port for Aliyun's HTTP protocol; the JSON API's port serves it as well."""
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


def _address(door: OpenPort | None) -> str | None:
    return None if door is None else door.address


DELAY_SCHEMES: Final[Sequence[OpenScheme]] = (open_timed_scheme,)
"""Delay schemes for absolute due times. The first scheme that claims a message keeps it."""


@asynccontextmanager
async def running_emulator(
    settings: Settings, pack: Pack | None = None, *, before_ready: Callable[[], None] = lambda: None
) -> AsyncIterator[Emulator]:
    """Run an emulator; on exit stop its listeners and timers, make the last commit, close the store.

    With a ``pack``, it begins with the pack's state. ``before_ready`` is called before the ready file is
    written. Raises SettingError, ListenError, PackError or a StoreError when it cannot start, and leaves
    nothing open.
    """
    table = LevelTable.parse(settings.levels)
    access = access_of(settings)
    async with AsyncExitStack() as stack:
        lock = None if settings.data == MEMORY else DirectoryLock(Path(settings.data))
        if lock is not None:
            stack.callback(lock.close)
        ready_file = ReadyFile(settings.ready_file) if settings.ready_file else None
        is_suspect = lock is not None and not lock.is_settled
        database = await open_database(settings.data, settings.durability, is_suspect=is_suspect)
        stack.push_async_callback(_close_store, database, lock)
        ports = bind_ports(settings) if settings.remoting else None
        if ports is not None:
            stack.callback(ports.close)
        async with naming_damage(Path(settings.data, FILE_NAME)):
            store_host = store_host_of(settings, ports)
            broker = await stack.enter_async_context(
                open_broker(settings, database, store_host, table, DELAY_SCHEMES, access)
            )
        telemetry = await stack.enter_async_context(_telemetry(broker, settings))
        await plant_declared(broker, settings)
        if pack is not None:
            events_of(pack)
            await restore_pack(broker.snapshots, pack)
            broker.opened_pack = pack
        tap = _start_recordings(settings, broker, stack)
        http, remoting, grpc = await open_front_doors(broker, settings, access, ports, stack, tap)
        # Long polls and streams must end before the listeners wait for their handlers.
        stack.callback(broker.polls.close)
        stack.callback(broker.live.close)
        stack.callback(broker.faults.close)
        await _declare_faults(settings, broker)
        http.api.is_ready = True
        if telemetry is not None:
            telemetry.start_metrics(http.api)
        before_ready()
        if ready_file is not None:
            ready_file.write(http.doors)
            stack.callback(ready_file.remove_file)
        try:
            yield Emulator(settings, broker, http, remoting, grpc)
        finally:
            http.api.is_ready = False


@asynccontextmanager
async def _telemetry(broker: Broker, settings: Settings) -> AsyncIterator["Telemetry | None"]:
    """Export traces and metrics, if an endpoint is set. Raises SettingError without the extra ``otlp``."""
    if settings.otlp_endpoint is None:
        yield None
        return
    try:
        from mocketmq.otlp.telemetry import open_telemetry  # noqa: PLC0415 - needs the extra
    except ModuleNotFoundError as error:
        allowed = f"none: {error.name} is not installed; install mocketmq with its extra 'otlp'"
        raise SettingError("otlp_endpoint", settings.otlp_endpoint, allowed) from None
    async with open_telemetry(broker, settings.otlp_endpoint) as telemetry:
        yield telemetry


async def _close_store(database: Database, lock: DirectoryLock | None) -> None:
    """Close the store, and record whether the next start can skip the check for damage."""
    if lock is not None:
        lock.is_settled = False
    await database.close()
    if lock is not None:
        lock.is_settled = database.damage is None


def _start_recordings(settings: Settings, broker: Broker, stack: AsyncExitStack) -> DoorTap | None:
    """Record sent messages and requests, if files are set. Returns the tap that records requests.

    Raises SettingError if a file cannot be written.
    """
    if settings.record is None and settings.record_requests is None:
        if settings.record_mask is not None:
            allowed = "no value unless record or record_requests is set"
            raise SettingError("record_mask", settings.record_mask, allowed)
        return None
    from mocketmq.recording.broker_recorder import BrokerRecorder  # noqa: PLC0415 - rarely used
    from mocketmq.recording.masks import Masks  # noqa: PLC0415
    from mocketmq.recording.requests.request_recorder import RequestRecorder  # noqa: PLC0415

    texts = settings.record_mask.split(",") if settings.record_mask else []
    try:
        masks, masks_of_requests = [Masks(texts, secrets.token_bytes(32)) for _ in range(2)]
    except InvalidArgumentError as error:
        raise SettingError("record_mask", settings.record_mask, error.allowed) from None
    if settings.record is not None:
        with _naming_recording("record", settings.record):
            of_messages = BrokerRecorder(Path(settings.record), broker.registry.topics, masks)
        stack.push_async_callback(of_messages.close)
        of_messages.start()
        broker.sender.intake.on_sent = of_messages.note
    if settings.record_requests is None:
        return None
    with _naming_recording("record_requests", settings.record_requests):
        of_requests = RequestRecorder(
            Path(settings.record_requests), broker.clock, broker.registry.topics, masks_of_requests
        )
    stack.push_async_callback(of_requests.close)
    of_requests.start()
    return of_requests


@contextmanager
def _naming_recording(field: str, path: str) -> Iterator[None]:
    """Raise SettingError if a recording cannot be started."""
    from mocketmq.recording.recording import RecordingError  # noqa: PLC0415 - rarely used

    try:
        yield
    except RecordingError as error:
        allowed = f"a new file, or the recording of an earlier run ({error})"
        raise SettingError(field, path, allowed) from None


async def _declare_faults(settings: Settings, broker: Broker) -> None:
    """Add the fault rules from the settings. Raises SettingError."""
    for index, table in enumerate(settings.faults):
        try:
            await broker.faults.declare_rule(rule_of(table), index + 1)
        except InvalidArgumentError as error:
            field = f"faults[{index}].{error.field}"
            allowed = f"{error.allowed} (given by {settings.place_of(field)})"
            raise SettingError(field, table.get(error.field), allowed) from None
