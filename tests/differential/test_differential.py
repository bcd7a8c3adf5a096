"""RocketMQ and mocketmq answer alike, except as docs/differences.md lists: ``make differential``."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from tests.differential.cuts import require_few
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
async def test_two_brokers_answer_alike(duels: Sequence[Duel], request: pytest.FixtureRequest) -> None:
    await _play(duels, sequence, request, 1, AT_ONCE)


@pytest.mark.differential
@pytest.mark.asyncio(loop_scope="session")
async def test_two_brokers_pop_alike(pop_duels: Sequence[Duel], request: pytest.FixtureRequest) -> None:
    await _play(pop_duels, pop_sequence, request, SHARE_OF_POPS, POPS_AT_ONCE)


@pytest.mark.differential
@pytest.mark.asyncio(loop_scope="session")
async def test_a_proxy_and_a_broker_answer_grpc_alike(
    grpc_duels: Sequence[Duel], request: pytest.FixtureRequest
) -> None:
    await _play(grpc_duels, grpc_sequence, request, SHARE_OF_GRPC, POPS_AT_ONCE)


async def _play(
    duels: Sequence[Duel],
    made: Callable[[int, int], list[Op]],
    request: pytest.FixtureRequest,
    share: int,
    at_once: int,
) -> None:
    """Play each sequence on one of the duels, if the options leave any."""
    if not duels:
        pytest.skip("not for this version")
    option = request.config.getoption
    seed, first, count = option("--seed"), option("--first"), -(-option("--sequences") // share)
    numbers = iter(range(first, first + count))
    found: dict[tuple[str, ...], tuple[int, Duel, Difference]] = {}

    def repeating(number: int, duel: Duel) -> str:
        """Return the command that plays only this sequence."""
        options = f"--seed {seed} --first {number} --sequences 1 --rocketmq {duel.version}"
        return f'make differential ARGS="{options} -k {request.node.name}"'

    async def play() -> None:
        for number in numbers:
            duel = duels[number % len(duels)]
            try:
                parted = await duel.play(made(seed, number))
            except Exception as error:
                error.add_note(f"repeat it by {repeating(number, duel)}")
                raise
            for difference in parted:
                found.setdefault((duel.version, *difference.kind), (number, duel, difference))

    await asyncio.gather(*(play() for _ in range(at_once)))
    if not found:
        require_few([cut for duel in duels for cut in duel.cut_short], count)
        return
    shown = list(found.values())[:SHOWN]
    said = [f"{len(found)} kinds of differences that are not listed (--seed {seed}):"]
    said += [
        f"in sequence {number}, from RocketMQ {duel.version}: {difference}"
        for number, duel, difference in shown
    ]
    said += dict.fromkeys(f"repeat it by {repeating(number, duel)}" for number, duel, _ in shown)
    number, duel, difference = shown[0]
    fewer = await duel.shrink(made(seed, number), difference)
    said += [f"the first needs, of sequence {number}:", *map(str, fewer)]
    pytest.fail("\n".join(said), pytrace=False)
