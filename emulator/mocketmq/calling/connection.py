"""A client's connection to a RocketMQ name server or broker (docs/protocol/remoting.md §1)."""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import NamedTuple

from mocketmq.calling.call import (
    OPEN_ACCESS,
    ClusterAccess,
    ClusterError,
    Credentials,
    NoAnswerError,
    reason_of,
)
from mocketmq.calling.headers import group_body, pull_ext
from mocketmq.clock import steady_us, wall_us
from mocketmq.hosts import split_address
from mocketmq.remoting.wire.codes import FrameError, RequestCode, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.frame import FrameReader, encode
from mocketmq.remoting.wire.signature import ACCESS_KEY, SIGNATURE, contents, sign


class Answer(NamedTuple):
    """A response, and the local wall-clock times of request and response."""

    code: int
    ext: Mapping[str, str]
    body: bytes
    remark: str
    sent_us: int
    answered_us: int

    @property
    def reason(self) -> str:
        """The reason for a failure, in the peer's words."""
        names = {each.value: each.name for each in ResponseCode}
        return f"{self.remark or 'no reason'} ({names.get(self.code, 'code')} {self.code})"


def signed(command: Command, credentials: Credentials) -> Command:
    """Sign the request with these credentials."""
    command.ext = {**command.ext, ACCESS_KEY: credentials.access_key}
    signature = sign(credentials.secret, next(contents(command))).decode()
    command.ext = {**command.ext, SIGNATURE: signature}
    return command


class ClientConnection:
    """A connection. If it is closed, the next request reopens it.

    ``on_request`` receives the requests that the peer initiates.
    """

    def __init__(
        self,
        address: str,
        access: ClusterAccess = OPEN_ACCESS,
        on_request: Callable[[Command], object] = lambda _: None,
    ) -> None:
        self.address = address
        self._access = access
        self._on_request = on_request
        self._openings = 0
        self._opaques = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[tuple[Command, int]]] = {}
        self._opening = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._last_answer_us = 0  # when the peer last sent any data

    @property
    def session(self) -> int:
        """A number that changes whenever the connection is reopened; 0 while it is closed."""
        return 0 if self._writer is None else self._openings

    async def call(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", *, wait_s: float = 0.0
    ) -> Answer:
        """Send a request and return its response; ``wait_s`` extends the time limit. Raises NoAnswerError."""
        writer, asked_us = await self._open(), steady_us()
        command = Command(code=code, opaque=next(self._opaques), ext=ext or {}, body=body)
        if self._access.credentials is not None:
            command = signed(command, self._access.credentials)
        frame = encode(command)
        answer: asyncio.Future[tuple[Command, int]] = asyncio.get_running_loop().create_future()
        self._waiting[command.opaque] = answer
        sent_us = wall_us()
        writer.write(frame)
        try:
            async with asyncio.timeout(self._access.call_s + wait_s):
                found, answered_us = await answer
        except TimeoutError:
            if self._last_answer_us < asked_us:
                # Close the connection, because a hung peer would run all queued requests once it recovers.
                self._fail("did not answer")
                writer.transport.abort()
            raise NoAnswerError(f"{self.address} did not answer") from None
        finally:
            self._waiting.pop(command.opaque, None)
        return Answer(found.code, found.ext, found.body, found.remark or "", sent_us, answered_us)

    async def _open(self) -> asyncio.StreamWriter:
        async with self._opening:
            if self._writer is None:
                try:
                    host, port = split_address(self.address, 0)
                    async with asyncio.timeout(self._access.call_s):
                        reader, self._writer = await asyncio.open_connection(host, port, ssl=self._access.tls)
                except TimeoutError:
                    raise NoAnswerError(f"{self.address} cannot be reached: it did not answer") from None
                except (OSError, ValueError) as error:
                    raise NoAnswerError(f"{self.address} cannot be reached: {reason_of(error)}") from None
                self._openings += 1
                self._reading = asyncio.create_task(self._read(reader, self._writer))
            return self._writer

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames, reason = FrameReader(), "closed the connection"
        try:
            while data := await reader.read(1 << 18):
                at_us, self._last_answer_us = wall_us(), steady_us()
                for command in frames.feed(data):
                    if not command.is_response:
                        self._on_request(command)
                        continue
                    answer = self._waiting.get(command.opaque)
                    if answer is not None and not answer.done():
                        answer.set_result((command, at_us))
        except FrameError as error:
            reason = f"does not speak RocketMQ's protocol: {error}"
        except OSError as error:
            reason = f"closed the connection: {error}"
        finally:
            writer.transport.abort()
            self._writer = None
            self._fail(reason)

    def _fail(self, reason: str) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(NoAnswerError(f"{self.address} {reason}"))

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])


async def open_group(
    connection: ClientConnection, broker: str, group: str, topic: str, offset: int, advice: str
) -> None:
    """Create the group on a broker that does not know it, and make sure that it may read the topic.

    ``offset`` is at or beyond the end of the topic's first queue. Raises ClusterError, whose text ends with
    ``advice`` if the broker does not create the group.
    """
    pulled = await connection.call(RequestCode.PULL_MESSAGE, pull_ext(topic, group, 0, offset))
    if pulled.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
        made = await connection.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group_body(group))
        if made.code != ResponseCode.SUCCESS:
            raise ClusterError(
                f"group {group} does not exist, and broker {broker} did not create it: {made.reason};"
                f" {advice}"
            )
    elif pulled.code == ResponseCode.NO_PERMISSION:
        raise ClusterError(f"group {group} cannot read topic {topic}: {pulled.reason}")
