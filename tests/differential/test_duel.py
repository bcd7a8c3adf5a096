"""The search for the shortest sequence that shows a difference."""

from collections.abc import Sequence

import pytest

from tests.differential.difference import Difference, differences
from tests.differential.duel import Duel
from tests.differential.known import Known
from tests.differential.op import Ends, Op
from tests.differential.popping import PopSide
from tests.upstream.jars import V5

POP, SEND = Op("pop", {"group": "one"}), Op("send", {"topic": "one"})
[FOUND] = differences(POP, {"times": 1}, {"times": 0})


class DuelWithoutBrokers(Duel):
    """Finds the difference if a message is sent between two pops."""

    async def play(self, ops: Sequence[Op]) -> list[Difference]:
        """Return the difference that real brokers would show."""
        return [FOUND] if [op for op in ops if op in (POP, SEND)] == [POP, SEND, POP] else []


@pytest.mark.asyncio
async def test_a_difference_at_a_repeated_operation_keeps_what_precedes_it() -> None:
    ends = Ends("", 0, 0)
    duel = DuelWithoutBrokers(V5, ends, ends, Known([], V5), PopSide, [])
    assert await duel.shrink([POP, Op("ack", {}), SEND, POP, Op("peek", {})], FOUND) == [POP, SEND, POP]
