"""The search for the shortest sequence that shows a difference, and plays that end early."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.differential.cuts import Cut, Reason
from tests.differential.difference import Difference, differences
from tests.differential.duel import Duel
from tests.differential.known import Known
from tests.differential.op import Ends, Op, Seen
from tests.differential.operations import Side
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


THEIRS, OURS = Ends("", 0, 1), Ends("", 0, 2)
FULL = {"code": 0, "remark": "FOUND"}
TOO_SLOW = {"code": 210, "remark": "the broker[<broker>] pop message is timeout too much"}


class ScriptedSide(Side):
    """Answers each operation by its arguments, without a broker."""

    async def play(self, op: Op) -> Seen:
        """Return the answer."""
        seen: Seen = op.args["theirs" if self._ends == THEIRS else "ours"]
        return seen


def scripted(name: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Op:
    """Return an operation that RocketMQ and mocketmq answer like this."""
    return Op(name, {"theirs": theirs, "ours": ours})


async def played(*ops: Op) -> tuple[list[Op], list[Cut]]:
    """Return the operations that differ, and the cuts."""
    duel = Duel(V5, THEIRS, OURS, Known([], V5), ScriptedSide, [], patience_s=0)
    return [found.op for found in await duel.play(ops)], duel.cut_short


@pytest.mark.asyncio
async def test_a_play_ends_where_rocketmq_says_that_it_is_too_slow_and_keeps_what_it_found_before() -> None:
    differs, late = scripted("peek", {"code": 0}, {"code": 1}), scripted("pop", TOO_SLOW, FULL)
    after = scripted("peek", {"code": 2}, {"code": 3})
    assert await played(differs, late, after) == ([differs], [Cut(late, Reason.LATE)])
    assert await played(differs, after) == ([differs, after], [])


@pytest.mark.asyncio
async def test_only_rocketmqs_own_words_cut_a_play() -> None:
    """Mocketmq's words do not, nor does another reason for the same code, nor silence."""
    empty = {"code": 210, "remark": "no new message"}
    for theirs, ours in ((FULL, TOO_SLOW), (empty, FULL), ({"answered": False}, FULL)):
        op = scripted("pop", theirs, ours)
        differs, cuts = await played(op)
        assert op in differs
        assert not cuts
    assert await played(scripted("pop", TOO_SLOW, TOO_SLOW)) == ([], [])


@pytest.mark.asyncio
async def test_a_late_answer_inside_of_another_cuts_the_play() -> None:
    busy = {"code": 2, "remark": "[PC_SYNCHRONIZED]broker busy, start flow control for a while"}
    for theirs, ours in (
        ({"sent": [FULL], "popped": TOO_SLOW}, {"sent": [FULL], "popped": FULL}),
        ({"sent": [FULL, busy]}, {"sent": [FULL, FULL]}),
    ):
        op = scripted("held_pop", theirs, ours)
        assert await played(op) == ([], [Cut(op, Reason.LATE)])
