"""Which delayed messages a continued recording still knows when their deliveries are read."""

import pytest

from mocketmq.calling.call import ClusterError
from mocketmq.recording.parked_messages import ParkedMessages
from mocketmq.recording.recording import Origin, RecordedMessage, sent_text

HOUR_S = 3_600
ORIGIN = Origin("broker-a", "SCHEDULE_TOPIC_XXXX", 2, 0)


def message(
    sent_s: int, key: str, *, delay_s: int = 0, due_s: int | None = None, level: int = 0
) -> RecordedMessage:
    return RecordedMessage(
        sent_at=sent_text(sent_s * 1_000_000),
        topic="orders",
        body="x",
        message_id=key,
        delay_ms=delay_s * 1_000 or None,
        deliver_at=None if due_s is None else sent_text(due_s * 1_000_000),
        delay_level=level,
        origin=ORIGIN if delay_s or level or due_s else Origin("broker-a", "orders", 0, 0),
    )


def test_messages_that_were_delivered_long_ago_are_forgotten() -> None:
    parked = ParkedMessages()
    for each in (
        message(0, "short", delay_s=60),
        message(0, "level", level=18),
        message(0, "long", delay_s=9 * HOUR_S),
        message(0, "absolute", due_s=9 * HOUR_S),
        message(8 * HOUR_S, "recent", delay_s=60),
        message(8 * HOUR_S + 300, "plain"),
    ):
        parked.reread(each)
    parked.begin()
    known = ("short", "level", "long", "absolute", "recent", "plain")
    assert [key for key in known if parked.deliver("orders", key)] == ["long", "absolute", "recent"]
    assert HOUR_S * 7_000 < parked.passed_ms < HOUR_S * 8_000


def test_more_messages_can_be_reread_than_wait_at_a_time() -> None:
    parked = ParkedMessages(most=5)
    for number in range(100):
        parked.reread(message(number * 1_000, f"{number}", delay_s=1))
    with pytest.raises(ClusterError, match="more than 5 delayed messages are waiting for delivery"):
        for number in range(6):
            parked.reread(message(100_000, f"other-{number}", delay_s=1))


def test_equal_keys_of_other_topics_are_other_messages() -> None:
    parked = ParkedMessages()
    parked.park("orders", "a")
    parked.park("orders", "a")
    assert not parked.deliver("payments", "a")
    assert [parked.deliver("orders", "a") for _ in range(3)] == [True, True, False]
