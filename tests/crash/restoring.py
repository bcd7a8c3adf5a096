"""Restores or saves a snapshot in a process of its own, which a failpoint of the environment may kill.

``python -m tests.crash.restoring restore|save DATA SCHEME``
"""

import asyncio
import sys
from typing import Any

from tests.support.brokers import running_broker, send


async def act(what: str, data: str, scheme: Any) -> None:
    """Open the broker, and save or restore its snapshot."""
    async with running_broker(data, timed_scheme=scheme) as broker:
        if what == "restore":
            await broker.snapshots.restore("here")
        else:
            await send(broker, "newer")
            await broker.snapshots.save("here", replace=True)


if __name__ == "__main__":
    asyncio.run(act(*sys.argv[1:]))
