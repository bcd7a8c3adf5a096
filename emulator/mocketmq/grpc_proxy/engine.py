"""grpclib, as this door uses it. Imported when the first client comes."""

from collections import Counter
from typing import Any

import h2.config
from grpclib.config import Configuration
from grpclib.events import _DispatchServerEvents
from grpclib.protocol import H2Protocol
from grpclib.server import Handler

from mocketmq.access.access import Access
from mocketmq.broker.broker import Broker
from mocketmq.grpc_proxy.service import Codec, Service
from mocketmq.settings import Settings


class Engine:
    """Makes the HTTP/2 protocol of each connection."""

    def __init__(self, broker: Broker, settings: Settings, access: Access | None) -> None:
        self._service = Service(broker, settings, access)
        self._mapping = self._service.mapping()
        self._codec: Any = Codec()  # grpclib asks for no more than it has
        self._events = _DispatchServerEvents()
        self._config = Configuration().__for_server__()
        self._h2_config = h2.config.H2Configuration(
            client_side=False,
            header_encoding="ascii",
            validate_inbound_headers=False,
            validate_outbound_headers=False,
            normalize_inbound_headers=False,
            normalize_outbound_headers=False,
        )

    @property
    def answered(self) -> Counter[tuple[str, int]]:
        """Requests answered, by RPC and code."""
        return self._service.answered

    def protocol(self) -> H2Protocol:
        """For a new connection."""
        handler = Handler(self._mapping, self._codec, None, self._events)
        return H2Protocol(handler, self._config, self._h2_config)
