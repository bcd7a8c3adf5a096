"""Where clients are told that the broker is: the address by which they came in, unless that cannot be.

A route names one address, and each client dials it. A client that came in by an address can come in by it
again, so that one serves the host, other machines and neighbouring containers alike. The exception is a
container whose ports are published: its host comes in through the container's gateway, and on some platforms
cannot reach the container's own address, but only its published ports on 127.0.0.1.
"""

import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

LOOPBACK: Final = "127.0.0.1"
_MARKS: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))
_ROUTES: Final = Path("/proc/net/route")


class AdvertisedAddress(NamedTuple):
    """``host:port`` of the broker, as one client can reach it; the second as IPv4, for records and ids."""

    address: str
    store_host: str


class Advertiser:
    """``fixed`` is a ``host`` or ``host:port`` that every client is told instead.

    ``gateway`` is this container's, None outside of one.
    """

    def __init__(self, fixed: str | None, gateway: str | None) -> None:
        self._fixed = fixed
        self._gateway = gateway

    def to(self, local: str, peer: str, port: int) -> AdvertisedAddress:
        """For a client at ``peer`` that came in by ``local``, both IP addresses; ``port`` is the broker's."""
        if self._fixed is not None:
            return _advertised(*split_address(self._fixed, port))
        return _advertised(LOOPBACK if plain(peer) == self._gateway else plain(local), port)


def split_address(text: str, port: int) -> tuple[str, int]:
    """Host and port of ``host`` or ``host:port``; an IPv6 address stands in brackets, and loses them."""
    host, colon, number = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text.strip("[]"), port
    return host.strip("[]"), int(number)


def plain(address: str) -> str:
    """An IP address without a scope; as IPv4 where IPv6 only wraps it."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)


def with_port(host: str, port: int) -> str:
    """``host:port``, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _advertised(host: str, port: int) -> AdvertisedAddress:
    return AdvertisedAddress(with_port(host, port), f"{host if _is_ipv4(host) else LOOPBACK}:{port}")


def _is_ipv4(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True


def container_gateway(marks: Sequence[Path] = _MARKS, routes: Path = _ROUTES) -> str | None:
    """The default gateway of the container that this process runs in; None outside of one, or without."""
    if not any(mark.exists() for mark in marks):
        return None
    try:
        lines = routes.read_text().splitlines()[1:]
    except OSError:
        return None
    for fields in map(str.split, lines):
        # Interface, destination, gateway: hexadecimal, least significant byte first.
        if len(fields) > 2 and fields[1] == "00000000" and fields[2] != "00000000":
            return str(ipaddress.IPv4Address(bytes.fromhex(fields[2])[::-1]))
    return None
