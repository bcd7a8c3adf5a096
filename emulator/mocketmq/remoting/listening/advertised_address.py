"""Chooses the broker address in routes, which is by default the address that the client connected to.

A route names one address, which clients then connect to. A client on the host, on another machine or in
another container can connect to the same address again. A container with published ports is the exception,
because its host connects through the container's gateway. On some platforms, the host cannot reach the
container's own address, but only the published ports on 127.0.0.1.
"""

import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from mocketmq.hosts import split_address, with_port

LOOPBACK: Final = "127.0.0.1"
_MARKS: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))
_ROUTES: Final = Path("/proc/net/route")


class AdvertisedAddress(NamedTuple):
    """``host:port`` at which a client can reach the broker, and the same as IPv4 for records and ids."""

    address: str
    store_host: str


class Advertiser:
    """Chooses addresses. If ``fixed`` is given as ``host`` or ``host:port``, all clients get that address.

    ``gateway`` is the container's default gateway, or None outside a container.
    """

    def __init__(self, fixed: str | None, gateway: str | None) -> None:
        self._fixed = fixed
        self._gateway = gateway

    def address_for(
        self, local: str, peer: str, port: int, *, is_promoted: bool = False
    ) -> AdvertisedAddress:
        """The broker's address for the client at IP address ``peer`` that connected to ``local``.

        A slave that was promoted has the fixed host, but keeps its own ``port``.
        """
        if self._fixed is not None:
            host, fixed_port = split_address(self._fixed, port)
            return _advertised(host, port if is_promoted else fixed_port)
        return _advertised(LOOPBACK if plain(peer) == self._gateway else plain(local), port)


def plain(address: str) -> str:
    """An IP address without its scope. An IPv4-mapped address becomes IPv4."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)


def _advertised(host: str, port: int) -> AdvertisedAddress:
    return AdvertisedAddress(with_port(host, port), f"{host if _is_ipv4(host) else LOOPBACK}:{port}")


def _is_ipv4(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True


def container_gateway(marks: Sequence[Path] = _MARKS, routes: Path = _ROUTES) -> str | None:
    """The default gateway if this process runs in a container; None outside one, or if there is none."""
    if not any(mark.exists() for mark in marks):
        return None
    try:
        lines = routes.read_text().splitlines()[1:]
    except OSError:
        return None
    for fields in map(str.split, lines):
        # The fields are interface, destination and gateway, in hexadecimal, least significant byte first.
        if len(fields) > 2 and fields[1] == "00000000" and fields[2] != "00000000":
            return str(ipaddress.IPv4Address(bytes.fromhex(fields[2])[::-1]))
    return None
