"""All series, and their exponents.

``GROWTH_MOST`` in the environment is the largest number of messages, 1,000,000 unless it says otherwise; the
smaller sizes are powers of ten from 10,000 on. Ten million take hours and 60 GB of disk.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

from tests.bench.figures import Figure
from tests.bench.growth.clients import clients
from tests.bench.growth.messages import SCHEMES, herd, pending, sent
from tests.bench.growth.series import Cost, collect
from tests.bench.growth.topics import topics
from tests.bench.progress import say

_MOST: Final = int(os.environ.get("GROWTH_MOST", "1000000"))
_MESSAGES: Final = tuple(size for size in (10_000, 100_000, 1_000_000, 10_000_000) if size <= _MOST)
_TOPICS: Final = (10, 1_000, 100_000)
_CLIENTS: Final = (1, 10, 100, 1_000)


async def measure(quick: bool) -> list[Figure]:
    """Measure each cost once at each size, which shows the exponent; say each cost at once."""
    messages = (500, 1_000) if quick else _MESSAGES
    figures = await _series("messages", messages, sent)
    for scheme in SCHEMES:
        figures += await _series("messages", messages, lambda size: pending(scheme, size))  # noqa: B023
        figures += await _series("messages", messages, lambda size: herd(scheme, size), base=False)  # noqa: B023
    figures += await _series("topics", (10, 100) if quick else _TOPICS, topics)
    return [*figures, *await _series("clients", (1, 10) if quick else _CLIENTS, clients)]


async def _series(
    of: str, sizes: Iterable[int], costs_of: Callable[[int], AsyncIterator[Cost]], *, base: bool = True
) -> list[Figure]:
    costs: list[Cost] = []
    for size in (0, *sizes) if base else sizes:
        async for cost in costs_of(size):
            say(f"{cost.name}, {size:,} {of}: {cost.value:.4g} {cost.unit}")
            costs.append(cost)
    return [figure for series in collect(of, costs) for figure in series.figures()]
