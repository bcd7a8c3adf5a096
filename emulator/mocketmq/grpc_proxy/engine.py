"""Runs each RPC in its own task. Imported, like protobuf and hpack, when the first client connects."""

import asyncio
import logging
import re
from collections import Counter
from functools import partial
from typing import Any, Final, cast

from mocketmq.access.access import Access
from mocketmq.broker.broker import Broker
from mocketmq.clock import US_PER_MS, US_PER_S, steady_us
from mocketmq.door_tap import DoorTap
from mocketmq.grpc_proxy.codes import Status, StatusError
from mocketmq.grpc_proxy.fair_share import FairShare, RequestQueue
from mocketmq.grpc_proxy.frames import http_error_block
from mocketmq.grpc_proxy.http2 import Http2
from mocketmq.grpc_proxy.memory import Memory
from mocketmq.grpc_proxy.service import Service
from mocketmq.grpc_proxy.stream import Rpc, Stream
from mocketmq.settings import Settings

log = logging.getLogger(__name__)

_TIMEOUT: Final = re.compile(r"(\d{1,8})([HMSmun])")
_UNITS_US: Final = {
    "H": 3_600 * US_PER_S,
    "M": 60 * US_PER_S,
    "S": US_PER_S,
    "m": US_PER_MS,
    "u": 1,
    "n": 0.001,
}


class GrpcEngine:
    """Makes the HTTP/2 protocol of each connection, and runs the handlers of its streams."""

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        access: Access | None,
        memory: Memory,
        tap: DoorTap | None = None,
    ) -> None:
        self._service = Service(broker, settings, access, memory, tap)
        self._rpcs = self._service.rpcs()
        self._memory = memory
        self._fair_share = FairShare()
        self._requests = RequestQueue(self._begin)
        self._loop = asyncio.get_running_loop()

    @property
    def answered(self) -> Counter[tuple[str, int]]:
        """Number of requests answered, by RPC and code."""
        return self._service.answered

    def protocol(self, connection: Any) -> Http2:
        """The HTTP/2 protocol for a new connection."""
        return Http2(connection, self._memory, self._fair_share, self._serve)

    def _serve(self, stream: Stream) -> None:
        """Start the handler of a stream, in its turn, once enough of its request has arrived."""
        if stream.is_queued or not stream.is_open:
            return
        rpc = stream.rpc
        if rpc is None:
            rpc = stream.rpc = self._admit(stream)
            if rpc is None:
                return
        if stream.is_ready:
            stream.is_queued = True
            self._requests.add_request(stream)

    def _begin(self, stream: Stream) -> None:
        stream.task = self._loop.create_task(self._run(cast(Rpc, stream.rpc), stream))

    def _admit(self, stream: Stream) -> Rpc | None:
        """Return the RPC of a request, or refuse an invalid request as grpc-java does and return None."""
        method, content_type = stream.headers.get(":method"), stream.headers.get("content-type", "")
        if method != "POST":
            stream.finish_with(http_error_block(405, Status.INTERNAL, f"Method '{method}' is not supported"))
            return None
        if not content_type.startswith("application/grpc"):
            stream.finish_with(
                http_error_block(415, Status.INTERNAL, f"Content-Type '{content_type}' is not supported")
            )
            return None
        path = stream.headers.get(":path", "")
        rpc = self._rpcs.get(path)
        if rpc is None:
            stream.finish(Status.UNIMPLEMENTED, f"Method not found: {path[1:]}")
            return None
        timeout = stream.headers.get("grpc-timeout")
        if timeout is not None:
            match = _TIMEOUT.fullmatch(timeout)
            if match is None:
                stream.finish(
                    Status.INTERNAL,
                    f"grpc-timeout is {timeout!r}; allowed: up to 8 digits and one of H M S m u n",
                )
                return None
            left_us = int(int(match[1]) * _UNITS_US[match[2]])
            stream.expires_us = steady_us() + left_us
            stream.expiry = self._loop.call_later(left_us / US_PER_S, partial(_expire, stream))
        return rpc

    async def _run(self, rpc: Rpc, stream: Stream) -> None:
        stream.is_running = True
        try:
            await rpc.serve(stream, rpc.request)
        except StatusError as error:
            stream.finish(error.status, error.message)
        except asyncio.CancelledError:
            stream.finish(Status.CANCELLED, "the request was cancelled")
            raise
        except Exception:
            log.exception("%s of %s: a defect in mocketmq", stream.headers[":path"], stream.connection.peer)
            stream.finish(Status.INTERNAL, "internal error in mocketmq; its log has the details")
        else:
            stream.finish()
        finally:
            stream.task = None  # its stack frames would keep messages until the garbage collector runs
            del stream


def _expire(stream: Stream) -> None:
    stream.finish(Status.DEADLINE_EXCEEDED, "the request's grpc-timeout has expired")
    stream.cancel()
