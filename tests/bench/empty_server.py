"""The floor for HTTP: an aiohttp server that answers any POST at once, with the broker's answer."""

import asyncio

import msgspec
import uvloop
from aiohttp import web

ANSWER = msgspec.json.encode(
    {
        "message_id": "0" * 32,
        "offset_message_id": "0" * 32,
        "topic": "orders",
        "queue_id": 0,
        "queue_offset": 100_000,
        "log_offset": 400_000,
        "store_ms": 1_715_900_000_000,
        "delay_level": 0,
        "due_ms": None,
    }
)


async def _answer(_request: web.Request) -> web.Response:
    return web.Response(body=ANSWER, status=201, headers={"Content-Type": "application/json"})


async def _serve() -> None:
    application = web.Application()
    application.router.add_post("/{path:.*}", _answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as main:
        main.run(_serve())
