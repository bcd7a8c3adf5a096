"""The remoting server, with the ports of the name server, the broker and the broker's VIP channel.

Each port serves every request, because the request codes of name server and broker do not overlap.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from mocketmq.access.access import Access
from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.selection import MAX_RECEIVED_BYTES
from mocketmq.broker.name_servers import NameServerView
from mocketmq.broker.registry.brokers import RegisteredBroker
from mocketmq.connections.freed_memory import give_back
from mocketmq.connections.tls import Tls
from mocketmq.door_tap import DoorTap
from mocketmq.hosts import with_port
from mocketmq.open_ports import BrokerDoors, OpenPort
from mocketmq.port_listener import PortListener
from mocketmq.remoting.access_rule import Guard
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.dispatcher import Dispatcher
from mocketmq.remoting.listening.advertised_address import Advertiser, container_gateway
from mocketmq.remoting.listening.connection import ConnectionHub, Reached, RemotingConnection
from mocketmq.remoting.listening.ports import Ports, cannot_listen
from mocketmq.remoting.request import Request
from mocketmq.remoting.request_attributes import DOOR
from mocketmq.remoting.requests.of_applications import FAMILIES, by_code
from mocketmq.settings import Settings

log = logging.getLogger(__name__)

GRACE_S: Final = 2.0
"""Real seconds that requests in progress get to finish when the server stops."""
TICK_S: Final = 10.0
IDLE_TICKS: Final = 12
"""Number of ticks without a byte after which a connection is closed, 120 s in all, as in RocketMQ."""


def _all_requests() -> Mapping[int, Request]:
    """The requests of applications and of tools."""
    from mocketmq.remoting.requests import families  # noqa: PLC0415 - not needed to start

    return families.REQUESTS


def _at_slave() -> Mapping[int, Request]:
    """The requests that slaves serve or refuse."""
    from mocketmq.remoting.requests.at_slave import requests_at_slave  # noqa: PLC0415 - for slaves only

    return requests_at_slave(_all_requests())


class RemotingServer:
    """The server, which the app starts and closes.

    Without ``access``, clients need no permissions.
    """

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        ports: Ports,
        tls: Tls,
        access: Access | None = None,
        tap: DoorTap | None = None,
    ) -> None:
        self._settings = settings
        self.namesrv_ports = ports.namesrv_ports
        self._brokers = broker.registry.brokers
        self._slave_of: dict[int, RegisteredBroker] = {}
        self._broker_of = self._add_brokers(ports)
        self._name_server_of = dict(zip(ports.namesrv_ports, broker.name_servers, strict=True))
        for port, each in self._name_server_of.items():
            each.port = port
        self.broker_port = ports.broker_port
        self.vip_port = ports.vip_port
        guard = None if access is None else Guard(access)
        self._at_slave = Dispatcher(broker, settings, {}, _at_slave, guard)
        self.dispatcher = Dispatcher(broker, settings, by_code(FAMILIES), _all_requests, guard)
        self._at_slave.latencies = self.dispatcher.latencies
        self.grace_s = GRACE_S
        self.tick_s = TICK_S
        self._broker = broker
        self._ports = ports
        self._ticking: asyncio.TimerHandle | None = None
        gateway = container_gateway()
        self._advertisers = [
            Advertiser(each.advertise or settings.advertise, gateway) for each in self._brokers
        ]
        largest_answer = max(settings.max_message_bytes, settings.max_pull_bytes, MAX_RECEIVED_BYTES)
        self.hub = ConnectionHub(
            *(broker.store.writer, self._reached, self._gone, tls),
            *(settings.server_version, largest_answer, tap),
        )
        make = partial(RemotingConnection, self.hub)
        self._port_listeners = {
            port: PortListener(make, partial(self._cut, port))
            for port in (*self._broker_of, *self._slave_of, *self._name_server_of)
        }

    def _add_brokers(self, ports: Ports) -> dict[int, RegisteredBroker]:
        """Record the ports in the registered brokers, and return the broker of each port."""
        found: dict[int, RegisteredBroker] = {}
        for registered, declared in zip(self._brokers, self._settings.declared_brokers, strict=False):
            registered.advertise = declared.advertise
            registered.slave_id = declared.slave_id or registered.slave_id
        for registered, opened in zip(self._brokers, ports.brokers, strict=True):
            registered.port, registered.vip_port = opened.port, opened.vip_port
            registered.slave_port, registered.slave_vip_port = opened.slave_port, opened.slave_vip_port
            found |= {each: registered for each in (opened.port, opened.vip_port) if each}
            of_slave = (opened.slave_port, opened.slave_vip_port)
            self._slave_of |= {each: registered for each in of_slave if each}
        return found

    @property
    def namesrv_port(self) -> int:
        """The port of the first name server."""
        return self.namesrv_ports[0]

    @property
    def namesrv_address(self) -> str:
        """``host:port`` of the first name server."""
        return with_port(self._settings.host, self.namesrv_port)

    @property
    def broker_address(self) -> str:
        """``host:port`` of the first broker."""
        return with_port(self._settings.host, self.broker_port)

    @property
    def doors(self) -> dict[str, OpenPort]:
        """The open ports of the first name server and the first broker, by their names."""
        ports = {"namesrv": self.namesrv_port, "broker": self.broker_port, "vip": self.vip_port}
        return {
            name: OpenPort(port, with_port(self._settings.host, port)) for name, port in ports.items() if port
        }

    @property
    def broker_doors(self) -> dict[str, BrokerDoors]:
        """The open ports of each broker, by name.

        Empty if there is a single broker, which has no slave and is not declared in the settings.
        """
        if len(self._brokers) == 1 and not self._slave_of and not self._settings.declared_brokers:
            return {}
        ports = (*self._broker_of, *self._slave_of)
        opened = {port: OpenPort(port, with_port(self._settings.host, port)) for port in ports}
        return {
            each.name: BrokerDoors(
                opened[each.port],
                opened.get(each.vip_port or 0),
                opened.get(each.slave_port or 0),
                opened.get(each.slave_vip_port or 0),
                advertised=each.advertise,
            )
            for each in self._brokers
        }

    @property
    def name_server_doors(self) -> list[OpenPort]:
        """The open port of each name server; empty if there is only one."""
        ports = self.namesrv_ports if len(self.namesrv_ports) > 1 else []
        return [OpenPort(port, with_port(self._settings.host, port)) for port in ports]

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self.hub.connections)

    @property
    def held_bytes(self) -> int:
        """Memory of incomplete frames and running requests, in bytes."""
        return self.hub.budget.held

    @property
    def unread_bytes(self) -> int:
        """Bytes of responses that clients have not read."""
        return self.hub.messages.unread_bytes

    def metrics(self) -> Iterator[Any]:
        """Prometheus metrics of the remoting server."""
        from mocketmq.remoting.listening.metrics import metric_families  # noqa: PLC0415 - not needed to start
        from mocketmq.rocketmq_family import broker_nodes  # noqa: PLC0415 - as above

        return metric_families(
            self.dispatcher.answered,
            self.dispatcher.latencies,
            broker_nodes(self._brokers.names, self._brokers.down),
            connections=self.connections,
            held_bytes=self.held_bytes,
            unread_bytes=self.unread_bytes,
        )

    async def start(self) -> None:
        """Accept clients on every port. Raises ListenError."""
        for sock in self._ports.sockets:
            port = sock.getsockname()[1]
            try:
                await self._port_listeners[port].listen(sock)
            except OSError as error:  # another process has begun to listen since the bind
                option = "--namesrv-port" if port in self._name_server_of else "--broker-port"
                raise cannot_listen(self._settings.host, port, error, option) from error
        for port, port_listener in self._port_listeners.items():
            if registered := self._at_port(port):
                await self._broker.outage.add_listener(
                    *("broker-away", DOOR, port_listener, registered.name),
                    partial(self._is_down, port),
                    partial(self._is_slave, port),
                )
            else:
                is_stopped = partial(_is_stopped, self._name_server_of[port])
                await self._broker.outage.add_listener(
                    "name-server-away", DOOR, port_listener, None, is_stopped
                )
        self._brokers.on_changed.append(self._brokers_changed)
        self._tick_later()

    def _at_port(self, port: int) -> RegisteredBroker | None:
        """The broker that has this port, or whose slave has it; None for the port of a name server."""
        return self._broker_of.get(port) or self._slave_of.get(port)

    def _is_slave(self, port: int) -> bool:
        """Whether the port belongs to a slave. A promotion exchanges the roles of a broker and its slave."""
        if slave := self._slave_of.get(port):
            return not slave.condition.is_promoted
        broker = self._broker_of.get(port)
        return broker is not None and broker.condition.is_promoted

    def _is_down(self, port: int) -> bool:
        broker = self._at_port(port)
        if broker is None:
            return False
        return broker.condition.is_slave_down if self._is_slave(port) else broker.state != "running"

    def _brokers_changed(self) -> None:
        """Cut off the ports of unreachable brokers, reconnect all others, and apply changed roles."""
        before = self.hub.cut_off
        self.hub.cut_off = frozenset(
            port
            for port in (*self._broker_of, *self._slave_of)
            if (each := self._at_port(port)) and not each.is_reachable and not self._is_slave(port)
        )
        for connection in list(self.hub.connections):
            if connection.port in before - self.hub.cut_off:
                connection.reconnected()
            connection.look_at_role()

    def _reached(self, local: tuple[str, int], peer: str) -> Reached:
        """Find out what a client at ``peer`` has reached by connecting to a local address."""
        host, port = local
        is_slave = self._is_slave(port)
        registered = self._at_port(port) or self._brokers[0]
        advertiser = self._advertisers[registered.share.position]
        return Reached(
            self._at_slave if is_slave else self.dispatcher,
            registered.share,
            advertiser.address_for(
                host, peer, registered.master_port, is_promoted=registered.condition.is_promoted
            ),
            self._name_server_of.get(port),
            is_slave,
        )

    def _cut(self, port: int) -> None:
        broker, name_server, why = self._at_port(port), self._name_server_of.get(port), "injected fault"
        if broker is not None and self._is_down(port):
            why = broker.downtime
        elif name_server is not None and name_server.is_stopped:
            why = f"name server {name_server.number} stopped"
        for connection in list(self.hub.connections):
            if connection.port == port:
                connection.abort(f"port closed: {why}", logging.INFO)

    def _gone(self, channel: RemotingChannel) -> None:
        self._broker.registry.clients.gone(channel)

    def _tick_later(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(self.tick_s, self._tick)

    def _tick(self) -> None:
        self._tick_later()
        self._look_after()

    def _look_after(self) -> None:
        """Close idle and stalled connections, and return freed memory to the system after a flood."""
        for connection in list(self.hub.connections):
            connection.quiet += 1
            if connection.quiet >= IDLE_TICKS:
                connection.abort("idle for 120 s", logging.INFO)
            elif connection.is_stalled and self.hub.budget.is_spent:
                connection.abort("out of memory budget while its frame is incomplete")

        if self.hub.has_paused:
            self.hub.has_paused = False
            give_back()

    async def close(self) -> None:
        """Stop accepting and reading, answer the requests already read, then close. May be called twice."""
        if self._ticking is not None:
            self._ticking.cancel()
        for port_listener in self._port_listeners.values():
            port_listener.close()
        connections = [*self.hub.connections, *self.hub.leaving]
        closing = [asyncio.create_task(connection.close()) for connection in connections]
        if closing:
            _done, late = await asyncio.wait(closing, timeout=self.grace_s)
            if late:
                for connection in connections:
                    connection.let_go()
        await asyncio.gather(*closing)


def _is_stopped(name_server: NameServerView) -> bool:
    return name_server.is_stopped
