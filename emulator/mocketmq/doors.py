"""Addresses: those at which the broker listens, door by door, and those of its peers."""

import msgspec


class Door(msgspec.Struct, frozen=True):
    """A port that is listened on. The host of `address` is the one given by `--host`."""

    port: int
    address: str


class Doors(msgspec.Struct, frozen=True, omit_defaults=True):
    """The open doors: JSON API, Aliyun's extra port, name server, broker with its VIP channel, and gRPC."""

    http: Door
    aliyun: Door | None = None
    namesrv: Door | None = None
    broker: Door | None = None
    vip: Door | None = None
    grpc: Door | None = None


def with_port(host: str, port: int) -> str:
    """``host:port``, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def peer_host(address: str) -> str:
    """The host of a peer's ``host:port``, without the brackets of an IPv6 address."""
    return address.rpartition(":")[0].strip("[]")


def split_address(text: str, port: int) -> tuple[str, int]:
    """Host and port of ``host`` or ``host:port``. The brackets of an IPv6 address are removed."""
    host, colon, number = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text.strip("[]"), port
    return host.strip("[]"), int(number)
