"""Binds the ports for RocketMQ clients before the broker is created, because message ids contain its port."""

import errno
import ipaddress
import itertools
import logging
import os
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from mocketmq.errors import ListenError, SettingError
from mocketmq.hosts import port_or_host, split_address, with_port
from mocketmq.remoting.listening.advertised_address import LOOPBACK, Advertiser
from mocketmq.settings import Settings

log = logging.getLogger(__name__)

VIP_OFFSET: Final = -2
"""Difference between the port of the VIP channel and the broker's port, as in RocketMQ."""
SLAVE_OFFSET: Final = 4
"""Difference between the port of a slave and its broker's port.

The difference is even because Linux picks odd ports for listening, and even ports for outgoing connections.
"""
BETWEEN_BROKERS: Final = 10
"""Difference between the ports of one broker and of the next."""
BETWEEN_NAME_SERVERS: Final = 10
"""Difference between the ports of one name server and of the next.

By default, the HTTP port is one above the port of the first name server.
"""
_HIGHEST: Final = 65_535
_TRIES: Final = 64
_REUSES: Final = os.name == "posix" and sys.platform != "cygwin"

T = TypeVar("T")
Sockets = Sequence[socket.socket]
"""Sockets bound to the same port, one at each address of a host."""


class BrokerPorts(NamedTuple):
    """The ports of a broker and of its slave; None without a slave, or without a VIP channel."""

    port: int
    vip_port: int | None
    slave_port: int | None = None
    slave_vip_port: int | None = None


class BrokerSockets(NamedTuple):
    """The sockets of a broker and of its slave; empty without a slave, or without a VIP channel."""

    broker: Sockets
    vip: Sockets
    slave: Sockets = ()
    slave_vip: Sockets = ()

    @property
    def sockets(self) -> Sockets:
        """All sockets of the broker and its slave."""
        return tuple(itertools.chain(*self))

    @property
    def ports(self) -> BrokerPorts:
        """The ports of these sockets."""
        others = (_port_of(each) if each else None for each in self[1:])
        return BrokerPorts(_port_of(self.broker), *others)


class Ports:
    """The ports that :func:`bind_ports` has bound, but that do not listen yet.

    ``brokers`` has the ports of each broker. ``broker_port``, ``vip_port`` and ``broker_ip`` are those of the
    first broker. ``namesrv_ports`` has the port of each name server.
    """

    def __init__(self, name_servers: Sequence[Sockets], brokers: Sequence[BrokerSockets]) -> None:
        of_brokers = (one for each in brokers for one in each.sockets)
        self.sockets = (*of_brokers, *(one for each in name_servers for one in each))
        self.namesrv_ports = [_port_of(each) for each in name_servers]
        self.brokers = [each.ports for each in brokers]
        self.broker_port, self.vip_port, *_ = self.brokers[0]
        self.broker_ip: str = brokers[0].broker[0].getsockname()[0]

    def close(self) -> None:
        """Release the ports. May be called twice, and after a server has closed its sockets."""
        _close(self.sockets)


def bind_ports(settings: Settings) -> Ports:
    """Bind all ports; if one fails, bind none and raise ListenError.

    Raises SettingError if all brokers would be advertised with the same port.
    """
    declared = settings.declared_brokers
    has_many_ports = settings.brokers > 1 or settings.slaves
    is_shared = has_many_ports and not any(each.advertise for each in declared)
    if is_shared and settings.advertise and split_address(settings.advertise, 0)[1]:
        allowed = "a host without a port, with several brokers or slaves"
        raise SettingError("advertise", settings.advertise, allowed)
    host = settings.host
    if any(each.port or each.vip_port or each.slave_port for each in declared):
        brokers = _bind_declared(settings)
    else:
        brokers = _bind_row(
            settings.broker_port,
            settings.brokers,
            BETWEEN_BROKERS,
            partial(_bind_with_slave, settings),
            lambda bound: bound.sockets,
        )
    try:
        name_servers = _bind_row(
            settings.namesrv_port,
            settings.name_servers,
            BETWEEN_NAME_SERVERS,
            lambda port, is_picked: _bind(host, port, "--namesrv-port", is_picked=is_picked),
            lambda bound: bound,
        )
    except BaseException:
        for each in brokers:
            _close(each.sockets)
        raise
    return Ports(name_servers, brokers)


def _bind_declared(settings: Settings) -> list[BrokerSockets]:
    """Bind the ports of brokers that the settings declare. Raises ListenError."""
    bound: list[BrokerSockets] = []
    try:
        for index, each in enumerate(settings.declared_brokers):
            implied = settings.broker_port and settings.broker_port + index * BETWEEN_BROKERS
            bind = partial(_bind_with_slave, settings, vip_port=each.vip_port, slave_port=each.slave_port)
            bound += _bind_row(each.port or implied, 1, BETWEEN_BROKERS, bind, lambda bound: bound.sockets)
    except BaseException:
        for one in bound:
            _close(one.sockets)
        raise
    return bound


def _bind_row(
    first: int,
    count: int,
    distance: int,
    bind: Callable[[int, bool], T],
    sockets_of: Callable[[T], Sockets],
) -> list[T]:
    """Bind a row of ports at equal distances, beginning with ``first``, or with any port if it is 0.

    Because of the equal distances, a later start that is given only the first port binds the same ports.
    Raises ListenError.
    """
    for is_last in (*[False] * _TRIES, True):
        bound: list[T] = []
        try:
            for index in range(count):
                port = _port_of(sockets_of(bound[0])) + index * distance if bound else first
                bound.append(bind(port, bool(bound) and not first))
        except BaseException as error:
            for each in bound:
                _close(sockets_of(each))
            if first or is_last or not isinstance(error, ListenError):
                raise
        else:
            break
    return bound


def store_host_of(settings: Settings, ports: Ports | None) -> str:
    """The broker's ``host:port`` in message ids, as IPv4. If ``ports`` is None, remoting is off.

    Remoting clients that connected to another address get that address in message ids.
    """
    ip, port = (LOOPBACK, settings.broker_port) if ports is None else (ports.broker_ip, ports.broker_port)
    local = LOOPBACK if ipaddress.ip_address(ip).is_unspecified else ip
    first = next(iter(settings.declared_brokers), None)
    advertise = (first.advertise if first else None) or settings.advertise
    return Advertiser(advertise, None).address_for(local, local, port).store_host


def cannot_listen(host: str, port: int, error: OSError, option: str) -> ListenError:
    """The error for a port on which the broker cannot listen; it names the port's option."""
    return ListenError(
        f"cannot listen on {with_port(host, port)} for RocketMQ clients: {error.strerror or error};"
        f" choose {port_or_host(error, option)}, or disable these ports with --no-remoting"
    )


def _bind_with_slave(
    settings: Settings,
    fixed: int,
    is_picked: bool,
    *,
    vip_port: int | None = None,
    slave_port: int | None = None,
) -> BrokerSockets:
    """Bind the ports of a broker and of its slave, if any. Raises ListenError."""
    bound = _bind_broker(settings.host, fixed, is_picked=is_picked, vip_port=vip_port)
    if not settings.slaves:
        return bound
    port = slave_port or bound.ports.port + SLAVE_OFFSET
    try:
        is_own = slave_port is not None
        slave = _bind_broker(settings.host, port, is_picked=not is_own and (is_picked or not fixed))
    except BaseException:
        _close(bound.sockets)
        raise
    return bound._replace(slave=slave.broker, slave_vip=slave.vip)


def _bind_broker(host: str, fixed: int, *, is_picked: bool, vip_port: int | None = None) -> BrokerSockets:
    """Bind the ports of a broker and of its VIP channel. If ``fixed`` is 0, pick free ports.

    Without ``vip_port``, the VIP channel's port is two below the broker's port. If it is taken although the
    broker's port is fixed, the broker gets no VIP channel, or ListenError is raised if ``is_picked``. If the
    broker's port is not fixed, other pairs of ports are tried.
    """
    for is_last in (*[False] * _TRIES, True):
        broker = _bind(host, fixed, "--broker-port", is_picked=is_picked)
        try:
            own = vip_port or max(_port_of(broker) + VIP_OFFSET, 1)
            vip = _bind(host, own, "--broker-port", is_picked=is_picked or not fixed)
            return BrokerSockets(broker, vip)
        except ListenError as error:
            if is_picked:
                _close(broker)
                raise
            if fixed:
                log.warning("VIP channel disabled: %s", error)
            if fixed or is_last:
                break
            _close(broker)
    return BrokerSockets(broker, ())


def _bind(host: str, port: int, option: str, *, is_picked: bool = False) -> Sockets:
    bound: list[socket.socket] = []
    try:
        if port > _HIGHEST:  # getaddrinfo would use another port instead
            raise OSError(errno.ERANGE, f"ports end at {_HIGHEST}")
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            one = socket.socket(family, kind, protocol)
            bound.append(one)
            if _REUSES and port and not is_picked:  # a process that has just ended may have used the port
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind((address[0], port, *address[2:]))
            port = _port_of(bound)  # bind the other addresses to the port just picked
    except OSError as error:
        _close(bound)
        raise cannot_listen(host, port, error, option) from error
    return bound


def _port_of(bound: Sockets) -> int:
    port: int = bound[0].getsockname()[1]
    return port


def _close(sockets: Sockets) -> None:
    for one in sockets:
        one.close()
