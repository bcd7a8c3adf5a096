"""Opens a broker's ports for remoting, gRPC, and HTTP with the JSON API and Aliyun's protocol."""

import logging
from contextlib import AsyncExitStack
from typing import Final

from msgspec.structs import replace

from mocketmq import console
from mocketmq.access.access import Access
from mocketmq.broker.broker import Broker
from mocketmq.connections.certificate import certificate_of
from mocketmq.connections.tls import Tls
from mocketmq.door_tap import DoorTap
from mocketmq.errors import ListenError
from mocketmq.grpc_proxy.server import GrpcServer
from mocketmq.http_api.bodies import Bodies
from mocketmq.http_api.listener import HttpHandler, Listener, OtherDoors
from mocketmq.http_api.page_guard import PageGuard
from mocketmq.http_api.request import max_body_bytes
from mocketmq.http_api.server import HttpServer
from mocketmq.remoting.listening.ports import Ports
from mocketmq.remoting.listening.server import RemotingServer
from mocketmq.settings import Settings
from mocketmq_compat import address_discovery
from mocketmq_compat.aliyun_http import late_door as aliyun_http

log = logging.getLogger(__name__)

DEFAULT_GRPC_PORT: Final = Settings().grpc_port


async def open_front_doors(
    broker: Broker,
    settings: Settings,
    access: Access | None,
    ports: Ports | None,
    stack: AsyncExitStack,
    tap: DoorTap | None,
) -> tuple[HttpServer, RemotingServer | None, GrpcServer | None]:
    """Open the ports of all protocols; ``stack`` closes them. If ``ports`` is None, remoting is off.

    ``tap`` records the requests. Raises SettingError and ListenError.
    """
    tls = Tls(settings.tls, certificate_of(settings))
    remoting = None if ports is None else RemotingServer(broker, settings, ports, tls, access, tap)
    if remoting is not None:
        stack.push_async_callback(remoting.close)
        await remoting.start()
    guard = PageGuard(settings.allowed_hosts or ())
    bodies = Bodies(max_body_bytes(settings))
    by_segment, listeners = _protocols(broker, settings, access, remoting, guard, bodies)
    metrics = [remoting.metrics] if remoting is not None else []
    doors, brokers = (remoting.doors, remoting.broker_doors) if remoting is not None else ({}, {})
    grpc = GrpcServer(broker, settings, tls, access, tap) if settings.grpc else None
    if grpc is not None:
        stack.push_async_callback(grpc.close)
        if await _has_started(grpc):
            metrics.append(grpc.metrics)
            doors["grpc"] = grpc.door
            for name, door in grpc.broker_doors.items():
                if name in brokers:
                    brokers[name] = replace(brokers[name], grpc=door)
    name_servers = remoting.name_server_doors if remoting is not None else []
    others = OtherDoors(by_segment, listeners, metrics, doors, brokers, name_servers)
    http = HttpServer(broker, settings, guard, bodies, others, access, tap)
    stack.push_async_callback(http.close)
    await http.start()
    return http, remoting, grpc


async def _has_started(grpc: GrpcServer) -> bool:
    """Start gRPC. Returns False if its default port is in use, in which case the broker runs without gRPC.

    Raises ListenError.
    """
    try:
        await grpc.start()
    except ListenError as error:
        if grpc.port != DEFAULT_GRPC_PORT:
            raise
        log.warning("gRPC is off: %s", error)
        return False
    return True


def _protocols(
    broker: Broker,
    settings: Settings,
    access: Access | None,
    remoting: RemotingServer | None,
    guard: PageGuard,
    bodies: Bodies,
) -> tuple[dict[str, HttpHandler], list[Listener]]:
    """Make the handlers for the JSON API's port, by first path segment, and the listeners on other ports."""
    namesrv_ports = () if remoting is None else remoting.namesrv_ports
    aliyun = aliyun_http.LateDoor(broker, settings, access, bodies).answer
    by_segment = {
        aliyun_http.SEGMENT: aliyun,
        address_discovery.SEGMENT: address_discovery.address_discovery(
            settings.namesrv_address, namesrv_ports
        ),
    }
    port = settings.aliyun_port
    listeners = [] if port is None else [Listener("aliyun", port, guard, by_segment, aliyun)]
    return by_segment | dict.fromkeys(console.SEGMENTS, console.Console().answer), listeners
