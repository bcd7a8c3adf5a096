"""RocketMQ and mocketmq answer alike, except as docs/differences.md lists: ``make differential``."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from tests.differential.difference import Difference
from tests.differential.duel import Duel
from tests.differential.grpc_sequences import grpc_sequence
from tests.differential.op import Op
from tests.differential.pop_sequences import pop_sequence
from tests.differential.sequences import sequence

AT_ONCE = 8
POPS_AT_ONCE = 20
"""Number of sequences played side by side; sequences of pops mostly wait for invisible times."""
SHARE_OF_POPS = 10
SHARE_OF_GRPC = 10
"""Number of other sequences played for each sequence of pops or over gRPC."""
SHOWN = 10


@pytest.mark.differential
@pytest.mark.asyncio(loop_scope="session")
async def test_two_brokers_answer_alike(duels: Sequence[Duel], pytestconfig: pytest.Config) -> None:
    await _play(duels, sequence, pytestconfig, pytestconfig.getoption("--sequences"), AT_ONCE)


@pytest.mark.differential
@pytest.mark.asyncio(loop_scope="session")
async def test_two_brokers_pop_alike(pop_duels: Sequence[Duel], pytestconfig: pytest.Config) -> None:
    count = -(-pytestconfig.getoption("--sequences") // SHARE_OF_POPS)
    await _play(pop_duels, pop_sequence, pytestconfig, count, POPS_AT_ONCE)


@pytest.mark.differential
@pytest.mark.asyncio(loop_scope="session")
async def test_a_proxy_and_a_broker_answer_grpc_alike(
    grpc_duels: Sequence[Duel], pytestconfig: pytest.Config
) -> None:
    count = -(-pytestconfig.getoption("--sequences") // SHARE_OF_GRPC)
    await _play(grpc_duels, grpc_sequence, pytestconfig, count, POPS_AT_ONCE)


async def _play(
    duels: Sequence[Duel],
    made: Callable[[int, int], list[Op]],
    config: pytest.Config,
    count: int,
    at_once: int,
) -> None:
    """Play each sequence on one of the duels, if the options leave any."""
    if not duels:
        pytest.skip("not for this version")
    seed, first = config.getoption("--seed"), config.getoption("--first")
    numbers = iter(range(first, first + count))
    found: dict[tuple[str, ...], tuple[int, Duel, Difference]] = {}

    async def play() -> None:
        for number in numbers:
            duel = duels[number % len(duels)]
            for difference in await duel.play(made(seed, number)):
                found.setdefault((duel.version, *difference.kind), (number, duel, difference))

    await asyncio.gather(*(play() for _ in range(at_once)))
    if not found:
        return
    said = [f"{len(found)} kinds of differences that are not listed (--seed {seed}):"]
    said += [
        f"in sequence {number}, from RocketMQ {duel.version}: {difference}"
        for number, duel, difference in list(found.values())[:SHOWN]
    ]
    number, duel, difference = next(iter(found.values()))
    fewer = await duel.shrink(made(seed, number), difference)
    said += [f"the first needs, of sequence {number}:", *map(str, fewer)]
    pytest.fail("\n".join(said), pytrace=False)
