"""The targets of a replay on the broker's clock."""

from typing import Any, cast

import pytest

from mocketmq import Client
from mocketmq.recording.pace import Pace

BEGAN_MS = 5_000_000


class ManualClock:
    """A broker with a manual clock that only the replay moves."""

    def __init__(self) -> None:
        self.now_ms = BEGAN_MS
        self.moves: list[int] = []

    async def clock(self) -> dict[str, Any]:
        return {"rate": 0, "now_ms": self.now_ms}

    async def move_to(self, instant_ms: int) -> dict[str, Any]:
        self.moves.append(instant_ms)
        self.now_ms = instant_ms
        return {"now_ms": instant_ms}


@pytest.mark.parametrize(
    ("recorded_s", "distances_s"),
    [
        ([100, 101, 101, 200], [0, 1, 1, 100]),
        ([100, 110, 109, 111], [0, 10, 10, 11]),  # lines of several queues, a little out of order
        ([100, 3_700, 100, 105, 165], [0, 3_600, 3_600, 3_605, 3_665]),  # a reset, or the next run
    ],
)
async def test_targets_keep_the_spacing(recorded_s: list[int], distances_s: list[int]) -> None:
    broker = ManualClock()
    pace = Pace(cast(Client, broker))
    await pace.plan(None, hurries=False)
    await pace.begin()
    targets = [pace.target_ms(at_s * 1_000) for at_s in recorded_s]
    assert [target - BEGAN_MS for target in targets] == [each * 1_000 for each in distances_s]
    for target in targets:
        await pace.reach(target)
    assert broker.moves == sorted({*targets} - {BEGAN_MS})
