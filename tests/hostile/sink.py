"""A server that reads a flood and ignores it: ``python -m tests.hostile.sink`` prints its port.

A flood sent here takes only processor time from the broker and its clients, which is the least effect of any
flood. The server closes each connection after ``OPEN_S``, about as soon as the broker would.
"""

import asyncio
from typing import Final

OPEN_S: Final = 2.0
_READ_BYTES: Final = 1 << 16


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(OPEN_S):
            while await reader.read(_READ_BYTES):
                pass
    except (TimeoutError, OSError):
        pass
    finally:
        writer.close()


async def _serve() -> None:
    server = await asyncio.start_server(_read, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 - the parent reads it
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
