"""What the handler of an RPC gets."""

from typing import Any, NamedTuple

from mocketmq.broker.broker import Broker
from mocketmq.grpc_proxy.clients import GrpcClients
from mocketmq.settings import Settings


class Call(NamedTuple):
    """A request, who sent it, and how many real seconds its answer may take (None: no limit)."""

    broker: Broker
    settings: Settings
    clients: GrpcClients
    client_id: str
    remote: str  # the client's host:port
    request: Any
    remaining_s: float | None
