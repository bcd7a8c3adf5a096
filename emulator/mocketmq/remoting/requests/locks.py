"""Locks queues for clients that consume in order (docs/protocol/remoting.md §8.5)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from mocketmq.access.needs import Need, to_consume
from mocketmq.broker.consuming.queue_locks import TopicQueue
from mocketmq.remoting.access_rule import AccessRule
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.wire.body import object_of, objects_in, text_in, whole_in
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.fastjson import dumps
from mocketmq.remoting.wire.header import NoHeader


class _Locking(msgspec.Struct, frozen=True):
    client_id: str
    group: str
    queues: Mapping[TopicQueue, Mapping[str, Any]]  # as the client wrote them


def _to_lock(command: Command) -> Iterator[Need]:
    body = object_of(command.body)
    group = text_in(body, "consumerGroup")
    yield from to_consume(None, group)
    for queue in objects_in(body, "mqSet"):
        yield from to_consume(text_in(queue, "topic") or None, group)


LOCKS: Final = RequestFamily("Queue locks")


@Request(LOCKS, RequestCode.LOCK_BATCH_MQ, access=AccessRule(_to_lock))
async def lock(call: RemotingCall[NoHeader]) -> Response:
    """Lock queues for a client, and return the queues that it now holds."""
    locking = _locking(call)
    owned = call.broker.queue_locks.lock(locking.group, locking.client_id, locking.queues)
    return Response(
        body=dumps({"lockOKMQSet": [body for queue, body in locking.queues.items() if queue in owned]})
    )


@Request(LOCKS, RequestCode.UNLOCK_BATCH_MQ, access=AccessRule(_to_lock))
async def unlock(call: RemotingCall[NoHeader]) -> Response:
    """Release a client's locks on queues."""
    locking = _locking(call)
    call.broker.queue_locks.unlock(locking.group, locking.client_id, locking.queues)
    return Response()


def _locking(call: RemotingCall[NoHeader]) -> _Locking:
    body, share = object_of(call.command.body), call.channel.share
    queues = {}
    for one in objects_in(body, "mqSet"):
        topic = text_in(one, "topic")
        queues[topic, share.number_of(topic, whole_in(one, "queueId"))] = one
    return _Locking(text_in(body, "clientId"), text_in(body, "consumerGroup"), queues)
