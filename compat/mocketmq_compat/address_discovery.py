"""Address discovery for ONS clients: serves the name server's address (docs/protocol/aliyun.md §2.6, T-10).

The response is one ``host:port``, or several separated by semicolons, and nothing else. Requests need no
token, because ONS clients cannot send one, and the address is no secret to a client that has reached this
port.
"""

import re
from collections.abc import Sequence
from typing import Final

from mocketmq.http_api import web
from mocketmq.http_api.listener import UNMATCHED, HttpHandler, RoutedResponse
from mocketmq.http_api.request import host_of

SEGMENT: Final = "rocketmq"
"""First segment of this protocol's paths."""

_TEMPLATE: Final = "/rocketmq/{nsaddr}"
_PATH: Final = re.compile("/rocketmq/nsaddr(?:4client-internet|4client-internal)?(?:-[^/]+)?")
_PORT: Final = re.compile(":[0-9]*$")


def address_discovery(namesrv_address: str | None, namesrv_ports: Sequence[int]) -> HttpHandler:
    """Return a handler that serves this address, or else these ports of the host in the request."""

    async def answer(request: web.BaseRequest) -> RoutedResponse:
        if not _PATH.fullmatch(request.rel_url.raw_path):
            return RoutedResponse(
                UNMATCHED,
                web.Response(
                    status=404,
                    text="allowed: /rocketmq/nsaddr, /rocketmq/nsaddr4client-internet or -internal",
                ),
            )
        if request.method != "GET":
            return RoutedResponse(
                _TEMPLATE, web.Response(status=405, headers={"Allow": "GET"}, text="allowed: GET")
            )
        if namesrv_address is None and not namesrv_ports:
            return RoutedResponse(
                _TEMPLATE, web.Response(status=404, text="remoting is off, so there is no name server")
            )
        host = _PORT.sub("", host_of(request))
        address = namesrv_address or ";".join(f"{host}:{port}" for port in namesrv_ports)
        return RoutedResponse(
            _TEMPLATE, web.Response(body=address.encode(errors="replace"), content_type="text/plain")
        )

    return answer
