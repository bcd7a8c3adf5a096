"""Clients that send the requests of recorded clients to a broker, one for each recorded connection."""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

import aiohttp
from yarl import URL

from mocketmq.calling.call import NoAnswerError, reason_of
from mocketmq.door_tap import HttpAnswerMade
from mocketmq.recording.masks import Masks
from mocketmq.recording.requests import http_form, remoting_form
from mocketmq.remoting.wire.codes import FrameError
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.frame import FrameReader, encode

_READ_BYTES: Final = 1 << 18
NO_MASKS: Final = Masks((), b"")

Form = Mapping[str, Any]
Change = Callable[[str, str], str]
"""Translates a text of a request for this broker, given the name of the text's field."""


def retrieve(answer: "asyncio.Future[Form]") -> None:
    """Mark an error as seen, because nobody waits for an answer that the recording does not have."""
    if not answer.cancelled():
        answer.exception()


class PlayedConnection(ABC):
    """A connection, which begins requests in the order of the calls."""

    @abstractmethod
    async def begin(self, form: Form, change: Change) -> "asyncio.Future[Form]":
        """Send a request with its texts translated by ``change``. Returns the future of its answer.

        Both raise NoAnswerError.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connection, and cancel its waiting requests."""


class PlayedRemoting(PlayedConnection):
    """A connection over RocketMQ's TCP protocol. The connection does not answer the broker's requests."""

    def __init__(self, host: str, port: int, offsets: Callable[[dict[str, str]], dict[str, str]]) -> None:
        self._address = host, port
        self._offsets = offsets
        self._opaques = itertools.count(1)
        self._waiting: dict[int, tuple[int, asyncio.Future[Form]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def begin(self, form: Form, change: Change) -> "asyncio.Future[Form]":
        """Send a command."""
        writer = self._writer or await self._open()
        command = remoting_form.command_of(form, next(self._opaques), change)
        command.ext = self._offsets(dict(command.ext))
        answer: asyncio.Future[Form] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(retrieve)
        self._waiting[command.opaque] = command.code, answer
        writer.write(encode(command))
        return answer

    async def _open(self) -> asyncio.StreamWriter:
        host, port = self._address
        try:
            reader, self._writer = await asyncio.open_connection(host, port)
        except OSError as error:
            raise NoAnswerError(f"{host}:{port} cannot be reached: {reason_of(error)}") from None
        self._reading = asyncio.create_task(self._read(reader))
        return self._writer

    async def _read(self, reader: asyncio.StreamReader) -> None:
        frames, reason = FrameReader(), "closed the connection"
        try:
            while data := await reader.read(_READ_BYTES):
                for command in frames.feed(data):
                    self._answered(command)
        except (FrameError, OSError) as error:
            reason = str(error)
        finally:
            self._writer = None
            for _, answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(NoAnswerError(f"the broker {reason}"))
            self._waiting.clear()

    def _answered(self, command: Command) -> None:
        code, answer = self._waiting.pop(command.opaque, (0, None)) if command.is_response else (0, None)
        if answer is not None and not answer.done():
            answer.set_result(remoting_form.answer_form(code, command, NO_MASKS))

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        if self._reading is not None:
            await asyncio.wait([self._reading])


class PlayedHttp(PlayedConnection):
    """A connection to the JSON API or over Aliyun's protocol, which sends one request at a time."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._url = url
        self._headers = dict(headers)
        self._session: aiohttp.ClientSession | None = None
        self._asking: set[asyncio.Task[Form]] = set()

    async def begin(self, form: Form, change: Change) -> "asyncio.Future[Form]":
        """Send a request."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=1), timeout=aiohttp.ClientTimeout()
            )
        task = asyncio.create_task(self._ask(self._session, form, change))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        task.add_done_callback(retrieve)
        return task

    async def _ask(self, session: aiohttp.ClientSession, form: Form, change: Change) -> Form:
        headers = self._headers | ({"Content-Type": form["media_type"]} if "media_type" in form else {})
        body = form.get("body")
        if not form["path"].startswith("/"):  # else the path could name another host
            raise NoAnswerError(
                f"not replayed: the path is {form['path']!r}; allowed: a path that begins with /"
            )
        path, mark, query = form["path"].partition("?")
        path = "/".join(change(each, "") for each in path.split("/"))
        path += mark + http_form.changed_query(query, change)
        try:
            async with session.request(
                form["method"],
                URL(self._url + path, encoded=True),
                data=None if body is None else http_form.changed_body(body, change).encode(),
                headers=headers,
                allow_redirects=False,
            ) as response:
                answer = HttpAnswerMade(response.status, response.content_type, await response.read())
        except aiohttp.ClientError as error:
            raise NoAnswerError(f"the broker did not answer: {error}") from None
        return http_form.answer_form(answer, NO_MASKS)

    async def close(self) -> None:
        asking = list(self._asking)
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)
        if self._session is not None:
            await self._session.close()
