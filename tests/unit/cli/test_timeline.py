"""A message's life told in order."""

from typing import Any

from mocketmq.cli.timeline import timeline

MS = 1_000


def record(
    log_offset: int, topic: str, store_ms: int, due_ms: int | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "log_offset": log_offset,
        "topic": topic,
        "queue_id": 0,
        "queue_offset": 0,
        "store_ms": store_ms,
        "due_ms": due_ms,
        "parked_offset_message_id": None,
        "born_host": "10.1.2.3:4",
        "door": None,
        **more,
    }


def test_a_message_that_was_given_back_and_given_up() -> None:
    going = {"real_topic": "%RETRY%g", "real_queue_id": 0}
    life = {
        "records": [
            record(1, "orders", 1, door="grpc"),
            record(2, "SCHEDULE_TOPIC_XXXX", 5, 10_005, **going),
            record(3, "%RETRY%g", 10_007, parked_offset_message_id="02"),
            record(4, "%DLQ%g", 10_009),
        ],
        "deliveries": [
            {
                "delivered_offset": 3,
                "parked_offset": 2,
                "scheme": "levels",
                "stored_us": 5 * MS,
                "due_us": 10_005 * MS,
                "delivered_us": 10_007 * MS,
                "forced": 0,
                "pulled_by": "g",
                "pulled_us": 10_008 * MS,
            }
        ],
        "interventions": [],
        "receipts": [
            {
                "group": "g",
                "log_offset": 1,
                "times": 2,
                "first_taken_us": 2 * MS,
                "last_taken_us": 4 * MS,
                "settled_us": 5 * MS,
                "outcome": "retried",
            }
        ],
    }
    assert [(after, what) for _, after, what in timeline(life)] == [
        ("+0", "sent by grpc from 10.1.2.3:4"),
        ("+0", "stored in orders queue 0 at offset 0"),
        ("+1ms", "taken by g"),
        ("+3ms", "taken by g again, 2 times in all"),
        ("+4ms", "given back by g"),
        ("+4ms", "parked for 10s in SCHEDULE_TOPIC_XXXX queue 0 at offset 0, for %RETRY%g queue 0"),
        ("+10.004s", "due"),
        ("+10.006s", "delivered to %RETRY%g queue 0 at offset 0, 2ms late"),
        ("+10.007s", "first pulled by g"),
        ("+10.008s", "stored in %DLQ%g queue 0 at offset 0"),
    ]


def test_what_is_still_pending_is_told_with_its_future() -> None:
    going = {"real_topic": "orders", "real_queue_id": 3}
    life: dict[str, Any] = {
        "records": [record(1, "SCHEDULE_TOPIC_XXXX", 0, 1_000, **going)],
        "deliveries": [],
        "interventions": [],
        "receipts": [],
    }
    assert [(after, what) for _, after, what in timeline(life)][2:] == [
        ("+1s", "due, to go to orders queue 3")
    ]


def test_what_waited_in_a_file_has_no_record_of_it_but_its_delivery_tells() -> None:
    delivery = {
        "delivered_offset": 1,
        "parked_offset": 1_700_000_000_000_000,
        "scheme": "directories",
        "stored_us": 0,
        "due_us": 1_500 * MS,
        "delivered_us": 1_500 * MS,
        "forced": 0,
        "pulled_by": None,
    }
    life: dict[str, Any] = {
        "records": [record(1, "orders", 1_500, parked_offset_message_id="02")],
        "deliveries": [delivery],
        "interventions": [],
        "receipts": [],
    }
    assert [(after, what) for _, after, what in timeline(life)] == [
        ("+0", "sent from 10.1.2.3:4"),
        ("+0", "parked for 1.5s (scheme directories)"),
        ("+1.5s", "due"),
        ("+1.5s", "delivered to orders queue 0 at offset 0, on time"),
    ]
