"""Refuse to start on a file that is damaged or not a database, with advice."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from mocketmq.clock import US_PER_S, steady_us
from mocketmq.errors import EmulatorError, StoreDamagedError, StoreUnavailableError, StoreUnreadableError
from mocketmq.store.damage import Damage, find_all_damage, find_damage, is_damage, summary, words_of

log = logging.getLogger(__name__)

QUICK_S: Final = 1.0
"""Time after which a check that is still running is logged."""
NOTHING_KEPT: Final = "nothing of this request was kept"
_ADVICE: Final = "make room on its disk and the directory writable, or give another one with --data"
_MB: Final = 1_000_000


def check_file(path: Path, *, is_to_write: bool = True) -> None:
    """Raise StoreUnavailableError unless the file is missing or can be read and written.

    Needed because SQLite reports every cause as "unable to open database file".
    """
    try:
        with path.open("r+b" if is_to_write else "rb"):
            return
    except FileNotFoundError:
        return
    except IsADirectoryError:
        reason = "it is a directory; allowed: a database file"
    except OSError as error:
        reason = str(error.strerror)
    use = "writable" if is_to_write else "readable"
    raise StoreUnavailableError(
        f"cannot open {path}: {reason}. Move it away, make it {use}, or give another directory with --data"
    )


async def check_pages(path: Path) -> None:
    """Check for damage after an unclean stop. Raises StoreUnreadableError.

    The start waits for the check, however large the store is. Otherwise the broker could answer requests
    before the damage is found.
    """
    began_us = steady_us()
    checking = asyncio.create_task(asyncio.to_thread(find_damage, path))
    done, _ = await asyncio.wait({checking}, timeout=QUICK_S)
    size = _described(path)
    if not done:
        log.warning("the last run was not shut down cleanly: checking %s before the start", size)
    if found := await checking:
        raise StoreUnreadableError(_refusal(path, f"is damaged: {summary(found)}; it was left as it is"))
    log.log(
        logging.INFO if done else logging.WARNING,
        "the last run was not shut down cleanly: checked %s in %.2f s: no damage",
        size,
        (steady_us() - began_us) / US_PER_S,
    )


def opening_error(path: Path, error: Exception) -> StoreUnavailableError | StoreUnreadableError:
    """Return the error for a database that SQLite could not open."""
    if is_damage(error):
        reason = f"cannot be read as a database ({words_of(error)}); it was left as it is"
        return StoreUnreadableError(_refusal(path, reason))
    return StoreUnavailableError(f"cannot open {path}: {error}; {_ADVICE}")


@asynccontextmanager
async def naming_damage(path: Path) -> AsyncIterator[None]:
    """Name the damage in the error if the broker, started inside this context, fails because of it."""
    try:
        yield
    except Exception as error:
        if not _may_be_damage(error):
            raise
        found = await asyncio.to_thread(find_all_damage, path, lambda *_: None)
        if not found and isinstance(error, StoreDamagedError):
            found = [Damage(None, words_of(error.__cause__ or error))]
        if found:
            raise StoreUnreadableError(_refusal(path, f"is damaged: {summary(found)}")) from error
        if isinstance(error, StoreUnavailableError):
            reason = str(error).removesuffix(f"; {NOTHING_KEPT}")
            raise StoreUnavailableError(f"cannot start on {path}: {reason}; {_ADVICE}") from error
        raise


def _may_be_damage(error: Exception) -> bool:
    """Whether the error comes from invalid rows, or from SQLite itself."""
    return isinstance(error, StoreUnavailableError) or not isinstance(error, EmulatorError)


def _described(path: Path) -> str:
    size = path.stat().st_size if path.exists() else 0
    return f"{path}, {size / _MB:,.0f} MB,"


def _refusal(path: Path, reason: str) -> str:
    return (
        f"{path} {reason}. Restore it from a copy, move it away to start empty, or give another directory"
        f" with --data; mocketmq verify --data {path.parent} lists the damage"
    )
