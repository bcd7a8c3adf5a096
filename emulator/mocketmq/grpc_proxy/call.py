"""The context of an RPC's handler."""

from typing import Any, NamedTuple

from mocketmq.broker.broker import Broker
from mocketmq.grpc_proxy.clients import GrpcClients
from mocketmq.settings import Settings


class Call(NamedTuple):
    """A request, its sender, and the real seconds until its deadline (None: no limit)."""

    broker: Broker
    settings: Settings
    clients: GrpcClients
    client_id: str
    remote: str  # the client's host:port
    request: Any
    remaining_s: float | None
