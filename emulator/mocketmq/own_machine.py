"""Whether an address is of the broker's own machine, and whether that machine is a container."""

import ipaddress
import os
from typing import Final

_CONTAINER: Final = "container"
"""Variable set in container images, by systemd's convention. There, only published ports are reachable."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host by this address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_in_container() -> bool:
    """Whether published ports may hide which machine a request comes from."""
    return _CONTAINER in os.environ
