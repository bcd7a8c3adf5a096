"""Key-value configurations of the name server: 100 to 102 and 219 (sheet 2.1)."""

from typing import Final, NamedTuple

from mocketmq.remoting.access_rule import ADMIN, OPEN
from mocketmq.remoting.request import RemotingCall, Request, RequestFamily, Response
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.errors import RemotingError
from mocketmq.remoting.wire.fastjson import dumps


class PutConfigHeader(NamedTuple):
    """2.1."""

    namespace: str
    key: str
    value: str


class ConfigKeyHeader(NamedTuple):
    """2.1: 101 and 102."""

    namespace: str
    key: str


class NamespaceHeader(NamedTuple):
    """2.1."""

    namespace: str


async def put(call: RemotingCall[PutConfigHeader]) -> Response:
    """100: set a value."""
    await call.broker.registry.name_server.put(*call.header)
    return Response()


async def get(call: RemotingCall[ConfigKeyHeader]) -> Response:
    """101: one value. Raises RemotingError, as ``list_all``."""
    namespace, key = call.header
    value = call.broker.registry.name_server.namespace(namespace).get(key)
    if value is None:
        raise RemotingError(
            ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace} Key: {key}"
        )
    return Response({"value": value})


async def delete(call: RemotingCall[ConfigKeyHeader]) -> Response:
    """102: remove a value, if it is there."""
    await call.broker.registry.name_server.delete(*call.header)
    return Response()


async def list_all(call: RemotingCall[NamespaceHeader]) -> Response:
    """219: all values of a namespace."""
    values = call.broker.registry.name_server.namespace(call.header.namespace)
    if not values:
        raise RemotingError(
            ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {call.header.namespace}"
        )
    return Response(body=dumps({"table": values}))


KV_CONFIG: Final = RequestFamily(
    "Key-value configurations",
    [
        Request(RequestCode.PUT_KV_CONFIG, PutConfigHeader, put, access=ADMIN),
        Request(RequestCode.GET_KV_CONFIG, ConfigKeyHeader, get, access=OPEN),
        Request(RequestCode.DELETE_KV_CONFIG, ConfigKeyHeader, delete, access=ADMIN),
        Request(RequestCode.GET_KVLIST_BY_NAMESPACE, NamespaceHeader, list_all, access=OPEN),
    ],
)
