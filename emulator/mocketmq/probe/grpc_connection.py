"""A client's gRPC connection to a proxy of RocketMQ 5.

Source: the settings and headers of RocketMQ's own clients (rocketmq-clients 5.0, Signature.java).
"""

import asyncio
import hashlib
import hmac
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from grpclib.client import Channel
from grpclib.const import Cardinality
from grpclib.exceptions import GRPCError, StreamTerminatedError
from h2.exceptions import H2Error

from mocketmq.calling.call import ClusterAccess, ClusterError, NoAnswerError, reason_of
from mocketmq.calling.grpc_streams import begin
from mocketmq.clock import US_PER_S, wall_us
from mocketmq.grpc_proxy.definitions import SERVICE
from mocketmq.grpc_proxy.messages import Codec, message_class
from mocketmq.hosts import split_address
from mocketmq.message.message_id import new_unique_key

PORT: Final = 8081
OK: Final = 20_000


class GrpcRefusedError(ClusterError):
    """The proxy refused a request. ``code`` and text come from the status in the response."""

    def __init__(self, status: Any) -> None:
        super().__init__(f"{status.message or 'no reason'} (code {status.code})")
        self.code: int = status.code


class GrpcAnswer(NamedTuple):
    """The parts of a response, and the wall-clock times of request and completion."""

    messages: Sequence[Any]
    sent_us: int
    answered_us: int


class GrpcClientConnection:
    """The connection of one client. If it is closed, the next request reopens it."""

    def __init__(self, address: str, access: ClusterAccess) -> None:
        self.address = address
        self._call_s = access.call_s
        self.host, self.port = split_address(address, PORT)
        self._credentials = access.credentials
        self._client_id = f"mocketmq-probe@{os.getpid()}@0@{new_unique_key(wall_us())}"
        if access.tls is not None:
            access.tls.set_alpn_protocols(["h2"])
        codec: Any = Codec()
        self._channel = Channel(self.host, self.port, codec=codec, ssl=access.tls)

    async def call(self, rpc: str, **fields: Any) -> GrpcAnswer:
        """Return the response. Raises NoAnswerError, and GrpcRefusedError unless the status is OK."""
        answer = await self.ask(rpc, **fields)
        [message] = answer.messages
        if message.status.code != OK:
            raise GrpcRefusedError(message.status)
        return answer

    async def ask(self, rpc: str, *, wait_s: float = 0.0, many: bool = False, **fields: Any) -> GrpcAnswer:
        """Return the response, or all parts if it is a stream (``many``). ``wait_s`` extends the time limit.

        Raises NoAnswerError.
        """
        request_type, reply_type = message_class(f"{rpc}Request"), message_class(f"{rpc}Response")
        kind = Cardinality.UNARY_STREAM if many else Cardinality.UNARY_UNARY
        limit_s = self._call_s + wait_s
        path, metadata = f"/{SERVICE}/{rpc}", self._metadata()
        with self._spoken():
            async with (
                asyncio.timeout(limit_s),
                self._channel.request(
                    path, kind, request_type, reply_type, timeout=limit_s, metadata=metadata
                ) as stream,
            ):
                await begin(stream)
                sent_us = wall_us()
                await stream.send_message(request_type(**fields), end=True)
                messages = [message async for message in stream]
                answered_us = wall_us()
        if not messages:
            raise NoAnswerError(f"{self.address} ended {rpc} without a response")
        return GrpcAnswer(messages, sent_us, answered_us)

    @asynccontextmanager
    async def session(self, **settings: Any) -> AsyncIterator[None]:
        """Register the client's settings while the block runs. Raises NoAnswerError or ClusterError."""
        command = message_class("TelemetryCommand")
        with self._spoken():
            async with self._channel.request(
                f"/{SERVICE}/Telemetry",
                Cardinality.STREAM_STREAM,
                command,
                command,
                metadata=self._metadata(),
            ) as stream:
                async with asyncio.timeout(self._call_s):
                    await begin(stream)
                    await stream.send_message(command(settings=settings))
                    answer = await stream.recv_message()
                if answer is None or answer.status.code != OK:
                    raise (
                        GrpcRefusedError(answer.status)
                        if answer
                        else NoAnswerError(f"{self.address} ended the session")
                    )
                try:
                    yield
                finally:
                    await stream.cancel()

    def close(self) -> None:
        self._channel.close()

    def _metadata(self) -> dict[str, str]:
        found = {"x-mq-client-id": self._client_id, "x-mq-language": "PYTHON", "x-mq-protocol": "v2"}
        if self._credentials is not None:
            date = datetime.fromtimestamp(wall_us() // US_PER_S, UTC).strftime("%Y%m%dT%H%M%SZ")
            signature = hmac.new(self._credentials.secret.encode(), date.encode(), hashlib.sha1).hexdigest()
            found["x-mq-date-time"] = date
            found["authorization"] = (
                f"MQv2-HMAC-SHA1 Credential={self._credentials.access_key},"
                f" SignedHeaders=x-mq-date-time, Signature={signature}"
            )
        return found

    @contextmanager
    def _spoken(self) -> Iterator[None]:
        """Convert errors of the gRPC library to errors of the probe."""
        try:
            yield
        except TimeoutError:
            raise NoAnswerError(f"{self.address} did not answer") from None
        except GRPCError as error:
            raise ClusterError(
                f"{self.address} rejected the request: {error.message or 'no reason'} ({error.status.name})"
            ) from None
        except (StreamTerminatedError, H2Error) as error:  # H2Error: the peer does not speak HTTP/2
            raise NoAnswerError(f"{self.address} closed the connection: {error}") from None
        except OSError as error:
            raise NoAnswerError(f"{self.address} cannot be reached: {reason_of(error)}") from None
