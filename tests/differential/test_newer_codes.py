"""Requests that a few versions of RocketMQ 5 have, on real RocketMQs and on mocketmq."""

from collections.abc import Sequence

import pytest

from tests.differential.duel import Duel
from tests.differential.op import Op
from tests.differential.test_attributes import parted

SWITCH_TIMER_ENGINE, POP_ROLLBACK = 5_001, 200_056
DELETE_TOPICS, DELETE_GROUPS = 5_002, 5_003


def asked(code: int, ext: dict[str, str]) -> Op:
    return Op("change", {"code": code, "ext": ext})


@pytest.mark.differential
@pytest.mark.asyncio(loop_scope="session")
async def test_newer_requests_are_answered_alike(pop_duels: Sequence[Duel]) -> None:
    engines = [{}, *({"E_T": engine} for engine in ("F", "R", "", "f"))]
    plays = [[asked(SWITCH_TIMER_ENGINE, ext)] for ext in engines]
    plays += [[asked(code, {})] for code in (POP_ROLLBACK, DELETE_TOPICS, DELETE_GROUPS)]
    assert await parted(pop_duels, *plays) == ""
