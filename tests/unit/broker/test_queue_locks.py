"""Queue locks in real time."""

from mocketmq.broker.consuming import queue_locks
from mocketmq.broker.consuming.queue_locks import LIFETIME_US, QueueLocks

PLACE = ("orders", 0)


class Ticks:
    now_us = 0

    def __call__(self) -> int:
        return self.now_us


def test_lock_lasts_a_minute_from_its_last_request() -> None:
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


def test_expired_locks_are_forgotten() -> None:
    ticks = Ticks()
    locks = QueueLocks(ticks)
    for n in range(10 * queue_locks.SPARE):
        ticks.now_us += LIFETIME_US // queue_locks.SPARE
        locks.lock(f"group{n}", "one", [PLACE])
        assert locks._count <= 3 * queue_locks.SPARE + 1
    assert locks.lock(f"group{n}", "two", [PLACE]) == set()
