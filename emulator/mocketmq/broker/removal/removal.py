"""Removes messages: on request, and in the background."""

from dataclasses import dataclass

from mocketmq.broker.removal.reset import Reset
from mocketmq.broker.removal.retention import Retention
from mocketmq.faults.faults import Faults


@dataclass(frozen=True)
class Removal:
    """``reset`` empties the broker or a topic on request; ``retention`` removes old messages."""

    reset: Reset
    retention: Retention
    faults: Faults

    async def everything(self, begin_us: int | None, *, forget: bool) -> None:
        """Remove all fault rules and messages; ``forget`` also topics and groups. Raises ClockError.

        Rules go first, so that none delays or refuses what follows. ``begin_us`` is the instant at which the
        clock begins anew.
        """
        self.reset.check_beginning(begin_us)
        await self.faults.clear()
        await self.reset.all(begin_us)
        if forget:
            await self.reset.forget()
