"""Queue locks in real time."""

from mocketmq.broker.consuming import queue_locks
from mocketmq.broker.consuming.queue_locks import LIFETIME_US, QueueLocks

PLACE = ("orders", 0)


class Ticks:
    now_us = 0

    def __call__(self) -> int:
        return self.now_us


def test_a_lock_holds_for_a_minute_after_it_was_last_asked_for() -> None:
    ticks = Ticks()
    locks = QueueLocks(ticks)
    assert locks.lock("billing", "one", [PLACE]) == {PLACE}
    ticks.now_us = LIFETIME_US - 1
    assert locks.lock("billing", "two", [PLACE]) == set()
    assert locks.lock("billing", "one", [PLACE]) == {PLACE}
    ticks.now_us = 2 * LIFETIME_US - 2
    assert locks.lock("billing", "two", [PLACE]) == set()
    ticks.now_us += 1
    assert locks.lock("billing", "two", [PLACE]) == {PLACE}
    assert locks.lock("billing", "one", [PLACE]) == set()


def test_locks_that_nobody_asks_for_any_more_are_forgotten() -> None:
    ticks = Ticks()
    locks = QueueLocks(ticks)
    for n in range(10 * queue_locks.SPARE):
        ticks.now_us += LIFETIME_US // queue_locks.SPARE
        locks.lock(f"group{n}", "one", [PLACE])
        assert len(locks._locks) <= 3 * queue_locks.SPARE + 1
    assert locks.lock(f"group{n}", "two", [PLACE]) == set()
