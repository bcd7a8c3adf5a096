"""The entries due next, while the store has not read all entries."""

from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.pending_entries import ReadAhead
from mocketmq_compat.delay.store import bound

FIRST, SECOND, LATER = Entry(1, 1, 0), Entry(2, 2, 0), Entry(9, 3, 0)


def test_a_bound_represents_unread_entries() -> None:
    read_ahead = ReadAhead()
    read_ahead.end_refill([FIRST, bound(5_000)])
    read_ahead.add(LATER)
    read_ahead.add(SECOND)
    assert read_ahead.entries == [FIRST, SECOND]
    assert read_ahead.first_but([FIRST, SECOND]) == bound(5_000)
    needs = []
    for entry in (FIRST, SECOND):
        read_ahead.remove(entry)
        needs.append(read_ahead.needs_refill)
    read_ahead.end_refill([LATER])
    assert (needs, read_ahead.needs_refill, read_ahead.first()) == ([False, True], False, LATER)


def test_changes_during_a_refill_are_kept_before_the_bound() -> None:
    read_ahead = ReadAhead()
    read_ahead.begin_refill()
    read_ahead.add(SECOND)
    read_ahead.add(LATER)
    read_ahead.remove(FIRST)
    read_ahead.end_refill([FIRST, bound(5_000)])
    assert (read_ahead.entries, read_ahead.beyond) == ([SECOND], bound(5_000))
