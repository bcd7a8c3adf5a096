"""Refuses requests from pages of other sites, which could use any broker that their visitor can reach.

A page can reach a program on its visitor's machine in two ways. If the page requests the broker's address,
the browser sends ``Origin`` or ``Sec-Fetch-Site`` (Fetch Metadata, W3C), which no SDK sends. If the site
makes its own name resolve to the broker's address (DNS rebinding), ``Host`` is a registered name. A
registered name contains a dot, whereas clients reach a broker by an address or by a name without a dot.
"""

import re
import socket
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from mocketmq.http_api import web
from mocketmq.http_api.problem import HttpError
from mocketmq.http_api.request import host_of

ANY: Final = "*"
_PRIVATE: Final = (".localhost", ".local", ".internal", ".svc", ".test", ".home.arpa")
"""Suffixes that cannot be registered (RFC 6761, RFC 6762, RFC 8375, ICANN's .internal; Kubernetes' .svc)."""
_HOSTS: Final = 64
"""Number of hosts for which the check is cached, because most requests name the same few."""
_PORT: Final = re.compile(r":\d*$")
_FOREIGN: Final = frozenset({"cross-site", "same-site"})


class ForeignHostError(HttpError):
    """The request's host name could belong to another site."""

    status = 421
    field = "Host"

    def __init__(self, host: str) -> None:
        super().__init__(
            f"Host is {host!r}, a name that another site may own; if it names this broker,"
            f" start the broker with --allowed-hosts {host}"
        )
        self.allowed = "an IP address, localhost, a name without a dot, or one of allowed_hosts"


class ForeignOriginError(HttpError):
    """The request comes from a page of another site."""

    status = 403
    field = "Origin"

    def __init__(self, origin: str, host: str) -> None:
        super().__init__(
            f"pages of {origin} are not allowed to use this broker; allowed: pages of {host} and of"
            " allowed_hosts, and programs other than browsers"
        )
        self.allowed = f"no Origin and Sec-Fetch-Site headers, or those of {host}"


class PageGuard:
    """Checks the hosts and origins of requests.

    ``allowed_hosts`` are additional names of the broker, and hosts whose pages may use the broker; ``*``
    allows any host.
    """

    def __init__(self, allowed_hosts: Iterable[str] = ()) -> None:
        allowed = {host.lower() for host in allowed_hosts}
        self._allows_all = ANY in allowed
        self._allowed = allowed | {socket.gethostname().lower()}
        self._is_own = lru_cache(_HOSTS)(self._names_broker)

    def check(self, request: web.BaseRequest, *, may_be_linked: bool) -> None:
        """Raise ForeignHostError or ForeignOriginError for a request from a page of another site.

        ``may_be_linked`` allows pages of other sites to link to the requested path.
        """
        if self._allows_all:
            return
        host = host_of(request).lower()
        if not self._is_own(host):
            raise ForeignHostError(_PORT.sub("", host)[:200])
        headers = request.headers
        origin = headers.get("Origin")
        if origin is not None:
            origin_host = _host_of_origin(origin)
            if origin_host is None or (origin_host != host and not self._is_allowed(origin_host)):
                raise ForeignOriginError(origin[:200], host)
        elif headers.get("Sec-Fetch-Site") in _FOREIGN and not (may_be_linked and _is_link(request)):
            raise ForeignOriginError("another site", host)

    def _is_allowed(self, host: str) -> bool:
        return host in self._allowed or _PORT.sub("", host) in self._allowed

    def _names_broker(self, host: str) -> bool:
        name = _PORT.sub("", host).strip("[]").removesuffix(".")
        if "." not in name and ":" not in name:
            return True
        if name.endswith(_PRIVATE) or self._is_allowed(host):
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True


def _host_of_origin(origin: str) -> str | None:
    """The host and port of an ``Origin`` header; None for text that is no URL, such as ``http://[``."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _is_link(request: web.BaseRequest) -> bool:
    """Whether the browser opens the response as a top-level page, which no other page can read."""
    headers = request.headers
    return (
        request.method == "GET"
        and headers.get("Sec-Fetch-Mode") == "navigate"
        and headers.get("Sec-Fetch-Dest") == "document"
    )
