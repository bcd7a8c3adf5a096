"""The name server's key-value configurations (docs/protocol/remoting.md §2.1)."""

from typing import Final

from mocketmq.access.needs import Action
from mocketmq.remoting.access_rule import OPEN, administers
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.fastjson import dumps
from mocketmq.remoting.wire.header import RequestHeader


class ConfigKeyHeader(RequestHeader):
    """Header of requests about one value."""

    namespace: str
    key: str


class PutConfigHeader(ConfigKeyHeader):
    """A value with its namespace and key."""

    value: str


class NamespaceHeader(RequestHeader):
    """Header of the request for all values of a namespace."""

    namespace: str


KV_CONFIG: Final = RequestFamily("Key-value configurations")


@Request(KV_CONFIG, RequestCode.PUT_KV_CONFIG, access=administers(Action.UPDATE))
async def put(call: RemotingCall[PutConfigHeader]) -> Response:
    """Set a value."""
    header = call.header
    await call.broker.registry.name_server.put(header.namespace, header.key, header.value)
    return Response()


@Request(KV_CONFIG, RequestCode.GET_KV_CONFIG, access=OPEN)
async def get(call: RemotingCall[ConfigKeyHeader]) -> Response:
    """Return a value. Raises RemotingError if the key does not exist."""
    namespace, key = call.header.namespace, call.header.key
    value = call.broker.registry.name_server.value(namespace, key)
    if value is None:
        raise RemotingError(
            ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace} Key: {key}"
        )
    return Response({"value": value})


@Request(KV_CONFIG, RequestCode.DELETE_KV_CONFIG, access=administers(Action.UPDATE))
async def delete(call: RemotingCall[ConfigKeyHeader]) -> Response:
    """Remove a value, if it exists."""
    await call.broker.registry.name_server.delete(call.header.namespace, call.header.key)
    return Response()


@Request(KV_CONFIG, RequestCode.GET_KVLIST_BY_NAMESPACE, access=OPEN)
async def list_all(call: RemotingCall[NamespaceHeader]) -> Response:
    """List the values of a namespace. Raises RemotingError if the namespace never had any."""
    values = call.broker.registry.name_server.namespace(call.header.namespace)
    if values is None:
        raise RemotingError(
            ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {call.header.namespace}"
        )
    return Response(body=dumps({"table": values}))
