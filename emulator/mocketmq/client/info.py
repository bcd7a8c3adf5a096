"""A broker's settings, limits and ports."""

from __future__ import annotations

from typing import TypedDict


class OpenPort(TypedDict):
    """An open port and its address: ``http://host:port``, or ``host:port``."""

    port: int
    address: str


class _OptionalPorts(TypedDict, total=False):
    """The ports that settings can close."""

    aliyun: OpenPort
    namesrv: OpenPort
    broker: OpenPort
    vip: OpenPort
    grpc: OpenPort


class _OptionalBrokerPorts(TypedDict, total=False):
    vip: OpenPort
    slave: OpenPort
    slave_vip: OpenPort
    grpc: OpenPort
    advertised: str


class BrokerDoors(_OptionalBrokerPorts):
    """The open ports of a broker of a cluster and of its ``slave``. Clients get ``advertised`` in routes."""

    broker: OpenPort


class _SeveralBrokers(TypedDict, total=False):
    brokers: dict[str, BrokerDoors]
    name_servers: list[OpenPort]


class OpenPorts(_OptionalPorts, _SeveralBrokers):
    """The open ports: JSON API, Aliyun's extra port, name server, broker, its VIP channel, and gRPC.

    With several brokers or slaves, ``broker`` and ``vip`` belong to the first broker, and ``brokers`` has the
    ports of every broker. With several name servers, ``namesrv`` is the first one, and ``name_servers`` lists
    all of them.
    """

    http: OpenPort


class Info(TypedDict):
    """The broker's settings and limits, and its open ``doors``. ``run`` counts its starts on this store.

    ``compiled`` says whether the installation has modules compiled by mypyc, or runs as Python.
    """

    version: str
    compiled: bool
    profile: str
    clock: str
    levels: str
    data: str
    durability: str
    run: int
    uptime_ms: int
    max_message_bytes: int
    max_batch: int
    max_long_poll_ms: int
    max_wait_ms: int
    doors: OpenPorts
