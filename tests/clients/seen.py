"""Runs the applications of all clients side by side, and collects what each of them sees."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")


async def seen_by_all(
    builds: Mapping[str, Callable[[], object]],
    play: Callable[[str, Path], Awaitable[T]],
    save: Callable[[dict[str, T]], object],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, T]:
    """Play with each client that can be built on this machine, save what was seen, and return it.

    Raises BaseExceptionGroup, after saving, with the errors of applications that did not come to the end.
    """
    homes = {client: tmp_path_factory.mktemp("home") for client, build in builds.items() if _is_built(build)}
    found = await asyncio.gather(
        *(play(client, home) for client, home in homes.items()), return_exceptions=True
    )
    seen = {
        client: one for client, one in zip(homes, found, strict=True) if not isinstance(one, BaseException)
    }
    save(seen)
    if failed := [one for one in found if isinstance(one, BaseException)]:
        raise BaseExceptionGroup("some applications did not come to the end", failed)
    return seen


def _is_built(build: Callable[[], object]) -> bool:
    try:
        build()
    except pytest.skip.Exception:
        return False
    return True
