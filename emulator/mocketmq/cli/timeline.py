"""The history of a message as a timeline."""

from collections.abc import Iterator
from typing import NamedTuple

from mocketmq.cli.output import instant
from mocketmq.client.answer import JsonObject
from mocketmq.clock import US_PER_MS
from mocketmq.duration import format_duration
from mocketmq.message.names import CHECKED_HALF_GROUP, HALF_GROUP

_OUTCOMES = {
    "acked": "acknowledged by {}",
    "retried": "given back by {}",
    "dead": "given up by {}",
    "passed": "passed over by {}",
    "committed": "committed",
    "rolled back": "rolled back",
    "abandoned": "given up, as no producer decided",
}
_HALF_GROUPS = (HALF_GROUP, CHECKED_HALF_GROUP)


class _Event(NamedTuple):
    """Something that happened to a record. Events are sorted by these fields in this order."""

    at_us: int
    log_offset: int
    stage: int  # of one record in one instant
    text: str


def timeline(history: JsonObject) -> Iterator[tuple[str, str, str]]:
    """Each event's instant, its time since the first event, and its text, in order of time."""
    parts = (_sent, _stored, _delivered, _intervened, _taken, _struck)
    events = sorted(event for part in parts for event in part(history))
    for event in events:
        after = format_duration(event.at_us - events[0].at_us)
        yield instant(event.at_us // US_PER_MS), f"+{after}", event.text


def _sent(history: JsonObject) -> Iterator[_Event]:
    first = history["records"][0]
    stored_us = [each["stored_us"] for each in history["deliveries"]]  # of a file there is no record
    at_us = min([first["store_ms"] * US_PER_MS, *stored_us])
    by = f" by {first['door']}" if first.get("door") else ""
    yield _Event(at_us, -1, 0, f"sent{by} from {first['born_host']}")


def _stored(history: JsonObject) -> Iterator[_Event]:
    """Records that were sent or given back. Those that a delivery made are in its event."""
    done = {each["parked_offset"] for each in (*history["deliveries"], *history["interventions"])}
    for record in history["records"]:
        at_us, order = record["store_ms"] * US_PER_MS, record["log_offset"]
        where = f"{record['topic']} queue {record['queue_id']} at offset {record['queue_offset']}"
        if record["due_ms"] is not None:
            delay = format_duration((record["due_ms"] - record["store_ms"]) * US_PER_MS)
            yield _Event(at_us, order, 0, f"parked for {delay} in {where}, for {_goal(record)}")
            if order not in done:
                yield _Event(record["due_ms"] * US_PER_MS, order, 1, f"due, to go to {_goal(record)}")
        elif record["parked_offset_message_id"] is None:
            yield _Event(at_us, order, 0, f"stored in {where}")


def _goal(parked: JsonObject) -> str:
    return f"{parked['real_topic']} queue {parked['real_queue_id']}"


def _delivered(history: JsonObject) -> Iterator[_Event]:
    records = {record["log_offset"]: record for record in history["records"]}
    for delivery in history["deliveries"]:
        order = delivery["delivered_offset"]
        record = records.get(order)
        where = (
            f" to {record['topic']} queue {record['queue_id']} at offset {record['queue_offset']}"
            if record
            else ""
        )
        if delivery["scheme"] != "levels":  # a level queue has a record of the parked message
            delay = format_duration(delivery["due_us"] - delivery["stored_us"])
            yield _Event(delivery["stored_us"], order, 0, f"parked for {delay} (scheme {delivery['scheme']})")
        late_us = delivery["delivered_us"] - delivery["due_us"]
        late = (
            f"{format_duration(abs(late_us))} {'late' if late_us >= 0 else 'early'}" if late_us else "on time"
        )
        cause = f", by fault {delivery['fault']}" if delivery.get("fault") else ""
        by_hand = " by hand" if delivery["forced"] else ""
        if not delivery["forced"]:
            yield _Event(delivery["due_us"], order, 1, "due")
        yield _Event(delivery["delivered_us"], order, 2, f"delivered{by_hand}{where}, {late}{cause}")


def _intervened(history: JsonObject) -> Iterator[_Event]:
    for each in history["interventions"]:
        if each["kind"] == "cancelled":
            yield _Event(each["at_us"], each["parked_offset"], 1, "cancelled: it will not be delivered")


def _taken(history: JsonObject) -> Iterator[_Event]:
    taken = {(each["group"], each["log_offset"]) for each in history["receipts"]}
    for receipt in history["receipts"]:
        group, order = receipt["group"], receipt["log_offset"]
        if group in _HALF_GROUPS:
            yield _Event(receipt["first_taken_us"], order, 3, "held until its producer decides")
        elif receipt["first_taken_us"] is not None:
            yield _Event(receipt["first_taken_us"], order, 3, f"taken by {group}")
        if receipt["times"] > 1 and group not in _HALF_GROUPS:
            yield _Event(
                receipt["last_taken_us"], order, 4, f"taken by {group} again, {receipt['times']} times in all"
            )
        if receipt["settled_us"] is not None:
            yield _Event(receipt["settled_us"], order, 5, _OUTCOMES[receipt["outcome"]].format(group))
    for delivery in history["deliveries"]:
        order, group = delivery["delivered_offset"], delivery["pulled_by"]
        if group is not None and (group, order) not in taken:
            yield _Event(delivery["pulled_us"], order, 3, f"first pulled by {group}")


def _struck(history: JsonObject) -> Iterator[_Event]:
    for each in history.get("faults", ()):
        by = f" by {each['door']}" if each["door"] else ""
        what = f"fault {each['fault']}: {each['do']} for {each['operation']}{by}"
        yield _Event(each["at_us"], 0, 0, what)
