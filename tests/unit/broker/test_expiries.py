from mocketmq.broker.consuming.expiries import SPARE, Expiries
from mocketmq.broker.registry.group import Group, GroupQueue
from mocketmq.broker.registry.take import State, Take
from mocketmq.store.queues import Queue


def take(place: GroupQueue, offset: int, visible_us: int) -> Take:
    """A message that was given."""
    taken = Take(place, offset, offset, "orders", 0, is_delayed=False, visible_us=visible_us)
    taken.move(State.HELD)
    return taken


def test_what_was_settled_leaves_nothing_behind() -> None:
    place = Group("billing", 16, 1).place(Queue(1, "orders", 0))
    changes: list[int] = []
    expiries = Expiries(lambda: changes.append(1))
    for offset in range(2 * SPARE + 2):
        one = take(place, offset, offset)
        one.close()
        expiries.expect(one)
    assert len(expiries._entries) <= SPARE
    assert expiries.next_us() is None
    expiries.expect(take(place, 5_000, 7))
    assert (expiries.next_us(), [one.queue_offset for one in expiries.pop(7, 10)]) == (7, [5_000])
