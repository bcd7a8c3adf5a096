"""The entries due next, when the store has not read all others."""

from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.front import Front
from mocketmq_compat.delay.store import bound

FIRST, SECOND, LATER = Entry(1, 1, 0), Entry(2, 2, 0), Entry(9, 3, 0)


def test_a_bound_stands_for_what_is_not_read_yet() -> None:
    front = Front()
    front.end_refill([FIRST, bound(5_000)])
    front.add(LATER)
    front.add(SECOND)
    assert front.entries == [FIRST, SECOND]
    assert front.first_but([FIRST, SECOND]) == bound(5_000)
    needs = []
    for entry in (FIRST, SECOND):
        front.remove(entry)
        needs.append(front.needs_refill)
    front.end_refill([LATER])
    assert (needs, front.needs_refill, front.first()) == ([False, True], False, LATER)


def test_what_comes_and_goes_during_a_refill_is_kept_before_the_bound() -> None:
    front = Front()
    front.begin_refill()
    front.add(SECOND)
    front.add(LATER)
    front.remove(FIRST)
    front.end_refill([FIRST, bound(5_000)])
    assert (front.entries, front.beyond) == ([SECOND], bound(5_000))
