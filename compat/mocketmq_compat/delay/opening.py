"""Open a scheme over records, in a folder of the data directory or in memory."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from mocketmq.errors import StoreUnavailableError
from mocketmq.settings import Settings
from mocketmq.store.database import MEMORY
from mocketmq_compat.delay.memory_store import MemoryStore
from mocketmq_compat.delay.store import DelayStore
from mocketmq_compat.delay.stored_scheme import StoredScheme


async def open_records(
    settings: Settings,
    folder: str,
    open_store: Callable[[Path], DelayStore],
    scheme_over: Callable[[DelayStore], StoredScheme],
    block_bytes: int = 1,
) -> StoredScheme:
    """The scheme; what waits there is found. Raises a StoreError."""
    try:
        if settings.data == MEMORY:
            store: DelayStore = MemoryStore(block_bytes)
        else:
            store = await asyncio.to_thread(open_store, Path(settings.data) / folder)
    except OSError as error:
        place = error.filename or Path(settings.data) / folder
        raise StoreUnavailableError(
            f"{place} cannot be used for delayed messages: {error.strerror}"
        ) from error
    scheme = scheme_over(store)
    try:
        await scheme.load()
    except BaseException:
        await scheme.close()
        raise
    return scheme
