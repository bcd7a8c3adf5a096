"""Hosts: parses and formats them with their port, and recognizes this machine, also in a container."""

import errno
import ipaddress
import os
import socket
from typing import Final

_CONTAINER: Final = "container"
"""Variable set in container images, by systemd's convention. There, only published ports are reachable."""


def with_port(host: str, port: int) -> str:
    """Format ``host:port``, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def peer_host(address: str) -> str:
    """Read the host of a peer's ``host:port``, without the brackets of an IPv6 address."""
    return address.rpartition(":")[0].strip("[]")


def split_address(text: str, port: int) -> tuple[str, int]:
    """Split ``host`` or ``host:port``, removing the brackets of an IPv6 address."""
    host, colon, number = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text.strip("[]"), port
    return host.strip("[]"), int(number)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host by this address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_in_container() -> bool:
    """Whether published ports may hide which machine a request comes from."""
    return _CONTAINER in os.environ


def port_or_host(error: Exception, option: str) -> str:
    """What to change after a failed bind: the port, or a host that this machine does not have."""
    is_host = isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL
    return "another address with --host" if is_host else f"another port with {option}"
