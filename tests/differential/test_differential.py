"""RocketMQ and mocketmq answer alike, but for what docs/differences.md lists: ``make differential``."""

import asyncio

import pytest

from tests.differential.difference import Difference
from tests.differential.duel import Duel
from tests.differential.sequences import sequence

AT_ONCE = 8
SHOWN = 10


@pytest.mark.differential
@pytest.mark.asyncio(loop_scope="session")
async def test_two_brokers_answer_alike(duel: Duel, pytestconfig: pytest.Config) -> None:
    seed, first = pytestconfig.getoption("--seed"), pytestconfig.getoption("--first")
    numbers = iter(range(first, first + pytestconfig.getoption("--sequences")))
    found: dict[tuple[str, ...], tuple[int, Difference]] = {}

    async def play() -> None:
        for number in numbers:
            for difference in await duel.play(sequence(seed, number)):
                found.setdefault(difference.kind, (number, difference))

    await asyncio.gather(*(play() for _ in range(AT_ONCE)))
    if not found:
        return
    said = [f"{len(found)} kinds of differences that are not listed (seed {seed}):"]
    said += [f"in sequence {number}: {difference}" for number, difference in list(found.values())[:SHOWN]]
    number, difference = next(iter(found.values()))
    fewer = await duel.shrink(sequence(seed, number), difference)
    said += [f"the first needs, of sequence {number}:", *map(str, fewer)]
    pytest.fail("\n".join(said), pytrace=False)
