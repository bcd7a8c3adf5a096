"""The broker's open ports and their addresses."""

import msgspec


class OpenPort(msgspec.Struct, frozen=True):
    """An open port. The host of `address` is the one given by `--host`."""

    port: int
    address: str


class BrokerDoors(msgspec.Struct, frozen=True, omit_defaults=True):
    """The open ports of a broker of a cluster. Without a `vip`, its VIP channel is off.

    `slave` and `slave_vip` are those of its slave, if it has one. With `proxy_mode` `local`, `grpc` is its
    endpoint. Clients are given `advertised`, if it is set.
    """

    broker: OpenPort
    vip: OpenPort | None = None
    slave: OpenPort | None = None
    slave_vip: OpenPort | None = None
    grpc: OpenPort | None = None
    advertised: str | None = None


class OpenPorts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The open ports: JSON API, Aliyun's extra port, name server, broker with its VIP channel, and gRPC.

    With several brokers or slaves, `broker` and `vip` belong to the first broker, and `brokers` has the ports
    of each broker by name. With `proxy_mode` `local`, `grpc` belongs to the first broker, too. With several
    name servers, `namesrv` is the first one, and `name_servers` has all of them.
    """

    http: OpenPort
    aliyun: OpenPort | None = None
    namesrv: OpenPort | None = None
    broker: OpenPort | None = None
    vip: OpenPort | None = None
    grpc: OpenPort | None = None
    brokers: dict[str, BrokerDoors] = {}
    name_servers: list[OpenPort] = []
