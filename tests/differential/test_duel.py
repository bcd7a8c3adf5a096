"""The search for the shortest sequence that shows a difference."""

from collections.abc import Sequence

import pytest

from tests.differential.difference import Difference, differences
from tests.differential.duel import Duel
from tests.differential.known import Known
from tests.differential.op import Ends, Op
from tests.differential.popping import PopSide
from tests.upstream.jars import V5

JOIN, POP, SEND = Op("heartbeat", {}), Op("pop", {"group": "one"}), Op("send", {"topic": "one"})
[FOUND] = differences(POP, {"times": 1}, {"times": 0})


class DuelWithoutBrokers(Duel):
    """Finds the difference if a message is sent between two pops, of which each needs a join."""

    async def play(self, ops: Sequence[Op]) -> list[Difference]:
        """Return the difference that real brokers would show. Raises AssertionError."""
        assert JOIN in ops or POP not in ops
        return [FOUND] if [op for op in ops if op in (POP, SEND)] == [POP, SEND, POP] else []


@pytest.mark.asyncio
async def test_a_difference_at_a_repeated_operation_keeps_what_precedes_it() -> None:
    ends = Ends("", 0, 0)
    duel = DuelWithoutBrokers(V5, ends, ends, Known([], V5), PopSide, [])
    ops = [JOIN, POP, Op("ack", {}), SEND, POP, Op("peek", {})]
    assert await duel.shrink(ops, FOUND) == [JOIN, POP, SEND, POP]
