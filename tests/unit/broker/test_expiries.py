from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
from mocketmq.broker.consuming.expiries import SPARE, Expiries
from mocketmq.broker.consuming.group_queue import GroupQueue
from mocketmq.broker.consuming.receipt import Receipt, State
from mocketmq.broker.registry.groups import Group
from mocketmq.store.queue import Queue


def receipt(group_queue: GroupQueue, offset: int, visible_us: int) -> Receipt:
    """Return the receipt of a delivered message."""
    taken = Receipt(group_queue, offset, offset, "orders", 0, is_delayed=False)
    taken.visible_us = visible_us
    taken.transition(State.HELD)
    return taken


def test_settled_receipts_leave_no_memory() -> None:
    group_queue = ConsumingGroup(Group("billing", 16, 1)).in_queue(Queue(1, "orders", 0))
    changes: list[int] = []
    expiries = Expiries(lambda: changes.append(1))
    for offset in range(2 * SPARE + 2):
        one = receipt(group_queue, offset, offset)
        one.close()
        expiries.add_receipt(one)
    assert len(expiries._entries) <= SPARE
    assert expiries.next_us() is None
    expiries.add_receipt(receipt(group_queue, 5_000, 7))
    assert (expiries.next_us(), [one.receipt.queue_offset for one in expiries.pop(7, 10)]) == (7, [5_000])
