"""Handles of popped messages, parsed as clients parse them (ExtraInfoUtil of 5.3.3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.errors import InvalidArgumentError
from mocketmq.remoting.wire.pop_handle import (
    IN_ORDER,
    ExtraInfo,
    PoppedQueue,
    message_offsets,
    order_counts,
    parse_extra_info,
    popped_queue,
    start_offsets,
)

LONGS = st.integers(0, (1 << 63) - 1)
PLACES = st.builds(PoppedQueue, st.sampled_from(["0", "1", "2"]), st.integers(0, 1_023))
OFFSETS = st.dictionaries(
    PLACES, st.lists(LONGS, min_size=1, max_size=32, unique=True).map(sorted), max_size=8
)
INFOS = st.builds(ExtraInfo, LONGS, LONGS, LONGS, st.sampled_from([0, IN_ORDER]), PLACES, LONGS)


def parsed(text: str) -> dict[str, str]:
    """Parse as parseMsgOffsetInfo and related functions do, which fail on entries they cannot use."""
    found: dict[str, str] = {}
    for one in text.split(";") if text else ():
        kind, queue, value = one.split(" ")
        assert f"{kind}@{queue}" not in found
        found[f"{kind}@{queue}"] = value
    return found


@given(INFOS)
def test_handle_survives_a_round_trip(info: ExtraInfo) -> None:
    assert parse_extra_info(info.text("broker-a")) == info
    assert len(info.text("broker-a").split(" ")) == 8


@given(OFFSETS)
def test_message_offsets_survive_a_round_trip(offsets: dict[PoppedQueue, list[int]]) -> None:
    keys = {queue: f"{queue.kind}@{queue.queue_id}" for queue in offsets}
    starts, messages = parsed(start_offsets(offsets)), parsed(message_offsets(offsets))
    assert starts == {keys[queue]: str(some[0]) for queue, some in offsets.items()}
    assert {key: [int(one) for one in text.split(",")] for key, text in messages.items()} == {
        keys[queue]: some for queue, some in offsets.items()
    }


@given(st.dictionaries(PLACES, st.dictionaries(LONGS, st.integers(0, 20), min_size=1), max_size=8))
def test_retry_counts_survive_a_round_trip(counts: dict[PoppedQueue, dict[int, int]]) -> None:
    rows = [(queue, offset, count) for queue, some in counts.items() for offset, count in some.items()]
    found = parsed(order_counts(rows))
    for (kind, queue_id), offset, count in rows:
        of_queue = found[f"{kind}@{queue_id}"]
        assert int(found.get(f"{kind}@qo{queue_id}%{offset}", of_queue)) == count
        assert int(of_queue) == min(counts[PoppedQueue(kind, queue_id)].values())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1 2 3 0 0 broker-a 0",
        "1 2 3 0 0 broker-a 0 x",
        "1 2 3 0 0 broker-a 0 4 5",
        "a b c d e f g h",
    ],
)
def test_invalid_handles_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="extraInfo is"):
        parse_extra_info(text)


def test_retry_queues_are_distinguished() -> None:
    assert popped_queue("orders", 3) == ("0", 3)
    assert popped_queue("%RETRY%billing", 0) == ("1", 0)
