"""grpclib, as this door uses it. Imported when the first client comes."""

from collections import Counter
from typing import Any, Final

import h2.config
from grpclib.config import Configuration
from grpclib.events import _DispatchServerEvents
from grpclib.protocol import H2Protocol
from grpclib.server import Handler
from h2.settings import SettingCodes

from mocketmq.access.access import Access
from mocketmq.broker.broker import Broker
from mocketmq.grpc_proxy.memory import Memory
from mocketmq.grpc_proxy.messages import Codec
from mocketmq.grpc_proxy.service import Service
from mocketmq.settings import Settings

MAX_STREAMS: Final = 1_024
"""RPCs of one connection at a time: a long poll for each queue of many topics, and requests beside them."""
WINDOW_BYTES: Final = 1 << 20
"""What a connection may send before it is read."""


class Http2(H2Protocol):
    """grpclib's, for more RPCs at a time."""

    def connection_made(self, transport: Any) -> None:
        """Begin, and say how many RPCs there may be."""
        super().connection_made(transport)
        self.connection._connection.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS})
        self.connection.flush()


class Engine:
    """Makes the HTTP/2 protocol of each connection."""

    def __init__(self, broker: Broker, settings: Settings, access: Access | None, memory: Memory) -> None:
        self._service = Service(broker, settings, access, memory)
        self._mapping = self._service.mapping()
        self._codec: Any = Codec()  # grpclib asks for no more than it has
        self._events = _DispatchServerEvents()
        self._config = Configuration(
            http2_connection_window_size=WINDOW_BYTES, http2_stream_window_size=WINDOW_BYTES
        ).__for_server__()
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

    def protocol(self) -> Http2:
        """For a new connection."""
        handler = Handler(self._mapping, self._codec, None, self._events)
        return Http2(handler, self._config, self._h2_config)
