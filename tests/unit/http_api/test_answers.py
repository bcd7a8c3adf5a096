"""A client that leaves while a large response is sent to it ends only its own request."""

import asyncio

from aiohttp import web

from mocketmq.http_api.answers import AnswerLoad, Answers
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
