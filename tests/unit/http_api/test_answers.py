"""Large responses to clients that leave, or that read slowly."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from mocketmq.connections.reading_pace import LEAST_READ_BYTES
from mocketmq.http_api import answers as answers_module
from mocketmq.http_api.answers import AnswerLoad, Answers, TooManyAnswersError
from tests.support.patience import PATIENCE_S

LARGE = bytes(50_000_000)


async def test_a_client_may_leave_while_a_large_text_is_sent() -> None:
    answers, ended = Answers(), asyncio.get_running_loop().create_future()

    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        try:
            response = await AnswerLoad(answers, request).send_in_pieces(LARGE, "text/plain")
        except BaseException as error:
            ended.set_exception(error)
            raise
        ended.set_result(response)
        return response

    # aiohttp would usually cancel the handler before it writes again.
    runner = web.ServerRunner(web.Server(serve, handler_cancellation=False))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection(*runner.addresses[0])
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readexactly(1_000)
        writer.transport.abort()
        await ended
    await runner.cleanup()
    assert not answers.sending


class Transport:
    """The transport of a client that has not read ``unread`` bytes."""

    def __init__(self, unread: int) -> None:
        self.unread = unread
        self.is_aborted = False

    def get_write_buffer_size(self) -> int:
        return self.unread

    def abort(self) -> None:
        self.is_aborted = True


@pytest.mark.parametrize(
    ("size", "is_closed"), [(1, True), (LEAST_READ_BYTES, False)], ids=["byte", "64 KiB"]
)
async def test_only_clients_that_read_too_slowly_are_closed_at_the_limit(
    monkeypatch: pytest.MonkeyPatch, size: int, is_closed: bool
) -> None:
    now_us = 0
    monkeypatch.setattr(answers_module, "steady_us", lambda: now_us)
    answers, transport = Answers(), Transport(len(LARGE))
    request: Any = SimpleNamespace(transport=transport)
    load = AnswerLoad(answers, request)
    with load._sending(len(LARGE)):
        for _ in range(3):
            with pytest.raises(TooManyAnswersError):
                load.refuse()
            assert not transport.is_aborted
            now_us += answers.still_us * 9 // 20
            transport.unread -= size
        answers.look_after()
        assert not transport.is_aborted
        with pytest.raises(TooManyAnswersError):
            load.refuse()
        assert transport.is_aborted is is_closed
