"""The context of an RPC's handler, and the names of topics and groups in its request.

Names are checked as in the proxy's TopicValidator. As in the proxy, ``resource_namespace`` and the namespace
header are ignored.
"""

from typing import Any, NamedTuple

from mocketmq.broker.broker import Broker
from mocketmq.broker.registry.brokers import RegisteredBroker
from mocketmq.errors import InvalidArgumentError
from mocketmq.grpc_proxy.clients import GrpcClients
from mocketmq.grpc_proxy.codes import Code, GrpcError
from mocketmq.message.names import check_group_name, check_topic_name, is_forbidden_topic, is_system_topic
from mocketmq.settings import Settings


class Call(NamedTuple):
    """A request, its sender, and the real seconds until its deadline (None means no deadline).

    ``local`` is the broker to whose endpoint the client is connected; None for the cluster's endpoint.
    """

    broker: Broker
    settings: Settings
    clients: GrpcClients
    client_id: str
    remote: str  # the client's host:port
    request: Any
    remaining_s: float | None
    local: RegisteredBroker | None


def topic_of(resource: Any) -> str:
    """Return the name of a topic that clients may use. Raises GrpcError."""
    name = str(resource.name)
    try:
        check_topic_name(name)
    except InvalidArgumentError as error:
        raise GrpcError(Code.ILLEGAL_TOPIC, str(error)) from None
    if is_forbidden_topic(name) or is_system_topic(name):
        raise GrpcError(Code.ILLEGAL_TOPIC, f"topic {name} is reserved for the system")
    return name


def group_of(resource: Any) -> str:
    """Return the name of a consumer group. Raises GrpcError."""
    name = str(resource.name)
    try:
        check_group_name(name)
    except InvalidArgumentError as error:
        raise GrpcError(Code.ILLEGAL_CONSUMER_GROUP, str(error)) from None
    if name.startswith("CID_RMQ_SYS_"):
        raise GrpcError(Code.ILLEGAL_CONSUMER_GROUP, f"group {name} is reserved for the system")
    return name
