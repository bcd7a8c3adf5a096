"""Ledgers with a known cause of lateness, and what each report format says about the cause."""

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq_report.compute.tables import ReportTables
from mocketmq_report.document import Cause, CauseGroup
from mocketmq_report.ledger.columns import STRUCK
from mocketmq_report.report.html import html
from mocketmq_report.report.markdown import markdown
from mocketmq_report.report.summary_table import summary
from mocketmq_report.report.why import why
from tests.support.reports import sample_report
from tests.unit.report.test_tables import START_US, ledger_of, tables_of

Rows = list[dict[str, Any]]
DUE_US = START_US + 60 * US_PER_S
RUN = {
    "run": "a1",
    "store": "a1",
    "version": "0.1",
    "clock": "real",
    "profile": "exact",
    "levels": "1s 5s",
    "as_of_us": DUE_US + 600 * US_PER_S,
    "started_wall_us": 1,
}
FAST = 100


def row(
    n: int,
    *,
    due: int = DUE_US,
    woke: int = FAST,
    written: int = FAST,
    pulled: int | None = FAST,
    acked: int | None = FAST,
    **more: Any,
) -> dict[str, Any]:
    """Return a delivery with the duration of each of its stages."""
    picked = due + woke
    delivered = picked + written
    taken = None if pulled is None else delivered + pulled
    return {
        **{"run": "a1", "message_id": f"M{n}", "parked_offset": n, "delivered_offset": 1_000_000 + n},
        **{"state": "delivered", "topic": "orders", "scheme": "levels", "level": 1, "attempt": 1},
        **{"forced": False, "born_us": due - US_PER_S, "stored_us": due - US_PER_S, "due_us": due},
        **{"picked_us": picked, "delivered_us": delivered, "pulled_us": taken},
        "acked_us": None if taken is None or acked is None else taken + acked,
        **more,
    }


def made(
    rows: Rows, parts: int = 3, struck: Rows | None = None, moves: Sequence[tuple[int, int]] = ()
) -> ReportTables:
    moved = [
        {"run": "a1", "wall_us": n, "from_us": DUE_US + begin, "to_us": DUE_US + end}
        for n, (begin, end) in enumerate(moves)
    ]
    ledger = ledger_of(rows, [RUN], moved, parts)
    return tables_of(ledger._replace(struck=pa.Table.from_pylist(struck or [], STRUCK)))


def found(
    rows: Rows, struck: Rows | None = None, moves: Sequence[tuple[int, int]] = ()
) -> list[tuple[str, str, int]]:
    causes = made(rows, 3, struck, moves).causes
    assert causes == made(rows, 7, struck, moves).causes
    for at in ("delivery", "consumer"):
        shares = [each.share for each in causes if each.at == at]
        assert not shares or sum(shares) == pytest.approx(1)
    return [(each.at, each.cause, each.messages) for each in causes]


ON_TIME = [row(10_000 + n, due=DUE_US - n * US_PER_S) for n in range(30)]


def test_messages_due_together_are_queued() -> None:
    herd = [row(n, woke=n * 300) for n in range(2_000)]
    (cause,) = made([*ON_TIME, *herd]).causes
    assert (cause.cause, cause.messages, cause.due_together) == ("line", 1_666, 2_001)
    assert cause.max_us == 1_999 * 300 + FAST


def test_late_timer_is_not_called_a_queue() -> None:
    asleep = [
        row(n, due=DUE_US + n * 20 * US_PER_MS, woke=3 * US_PER_S - n * 20 * US_PER_MS) for n in range(50)
    ]
    assert found([*ON_TIME, *asleep]) == [("delivery", "waking", 50)]


def test_a_slow_disk_also_explains_the_messages_queued_behind_it() -> None:
    written = [row(n, written=4 * US_PER_S) for n in range(5)]
    behind = [row(100 + n, due=DUE_US + 2 * US_PER_S, woke=2 * US_PER_S) for n in range(3)]
    assert found([*ON_TIME, *written, *behind]) == [("delivery", "written", 8)]


def test_late_storing_explains_late_messages() -> None:
    late = [row(n, stored_us=DUE_US + US_PER_S, woke=US_PER_S + FAST) for n in range(4)]
    assert found([*ON_TIME, *late]) == [("delivery", "stored", 4)]


def test_a_silent_level_waits_in_the_store() -> None:
    silent = [
        row(n, level=2)
        | dict.fromkeys(("picked_us", "delivered_us", "pulled_us", "acked_us", "delivered_offset"))
        | {"state": "pending"}
        for n in range(6)
    ]
    tables = made([*ON_TIME, *silent])
    assert [(each.at, each.cause, each.messages) for each in tables.causes] == [("delivery", "overdue", 6)]
    report = sample_report(
        lateness=tables.lateness, reconciliation=tables.reconciliation, causes=tables.causes
    )
    (said,) = why(report)
    assert said.what == "6 of 36 deliveries (16.67%) were more than 100ms late"
    assert said.reasons[0].words == "waited in the store, not delivered; silent: level 2 (5s), up to 10m"


@pytest.mark.parametrize(
    ("late", "on_time", "said"),
    [
        (1, 4, "1 of 5 deliveries (20%) was more than 100ms late"),
        (1, 0, "1 of 1 delivery (100%) was more than 100ms late"),
        (2, 3, "2 of 5 deliveries (40%) were more than 100ms late"),
    ],
)
def test_late_messages_are_counted_in_the_number_of_their_count(late: int, on_time: int, said: str) -> None:
    tables = made([*ON_TIME[:on_time], *(row(n, written=US_PER_S) for n in range(900, 900 + late))])
    report = sample_report(
        lateness=tables.lateness, reconciliation=tables.reconciliation, causes=tables.causes
    )
    assert [each.what for each in why(report)] == [said]


def test_an_absent_consumer_comes_back() -> None:
    back_us = DUE_US + 90 * US_PER_S
    waiting = [row(n, pulled=back_us - DUE_US - 2 * FAST + n, acked=FAST) for n in range(40)]
    assert found([*ON_TIME, *waiting]) == [("consumer", "absent", 40)]
    never = [row(n, pulled=None) for n in range(7)]
    assert found([*ON_TIME, *never]) == [("consumer", "absent", 7)]


def test_a_slow_consumer_leaves_messages_waiting() -> None:
    """The consumer takes a second for each of 20 messages, one after another."""
    slow = [row(n, pulled=n * US_PER_S, acked=US_PER_S) for n in range(20)]
    assert found([*ON_TIME, *slow]) == [("consumer", "slow", 20)]


def test_a_fault_is_named() -> None:
    struck = [row(n, written=US_PER_S, fault="slow disk") for n in range(3)]
    causes = made([*ON_TIME, *struck]).causes
    assert [(each.at, each.cause, each.fault, each.messages) for each in causes] == [
        ("delivery", "fault", "slow disk", 3),
    ]


def test_a_fault_that_put_a_delivery_off_is_not_behind_its_slow_consumer() -> None:
    late = [row(n, woke=US_PER_S, fault="late", acked=3 * US_PER_S, pulled_by="billing") for n in range(3)]
    delivery, consumer = made([*ON_TIME, *late]).causes
    assert (delivery.at, delivery.cause, delivery.fault) == ("delivery", "fault", "late")
    assert (consumer.at, consumer.cause, consumer.fault) == ("consumer", "slow", "")
    assert [vars_of(each) for each in consumer.groups] == [("billing", 3, 3 * US_PER_S + FAST)]


def vars_of(group: CauseGroup) -> tuple[str, int, int]:
    return group.name, group.messages, group.max_us


def strike(
    after_us: int, operation: str = "receive", do: str = "refuse", fault: str = "deaf", **more: Any
) -> dict[str, Any]:
    """Return a request that a fault hit some time after the messages were due."""
    at_us = DUE_US + after_us
    known = {"store": "a1", "at_us": at_us, "to_us": None, "topic": "orders", "group": "g"}
    return known | {"operation": operation, "do": do, "fault": fault} | more


def test_a_late_answer_and_a_slow_consumer_share_the_time_of_an_acknowledgement() -> None:
    """The first acknowledgement is answered 3 s late, and the consumer needs 13 s for all messages."""
    slow = [row(n, acked=3 * US_PER_S + n * 50 * US_PER_MS, pulled_by="billing") for n in range(1, 261)]
    late = strike(100 * US_PER_MS, "ack", "late", topic=None, group="billing", to_us=DUE_US + 3_100_000)
    fault, consumer = sorted(made([*ON_TIME, *slow], struck=[late]).causes, key=lambda one: one.messages)
    assert (fault.cause, consumer.cause) == ("fault", "slow")
    assert fault.messages + consumer.messages == 260
    (said,) = why(sample_report(causes=[consumer]))
    assert said.reasons[0].words == (
        "with a slow consumer of group billing, up to 16s (72.7% by the consumer, up to 13s;"
        " 27.3% by the injected fault deaf: 1 ack of billing answered late, up to 3s)"
    )
    (said,) = why(sample_report(causes=[fault]))
    assert said.reasons[0].words == (
        "hit the injected fault deaf: 1 ack of billing answered late, up to 5.95s"
        " (66.6% by the fault, up to 3s; 33.4% by the consumer, up to 2.95s)"
    )


def test_the_slow_groups_are_named() -> None:
    slow = [row(n, acked=US_PER_S, pulled_by="audit" if n < 2 else "billing") for n in range(8)]
    absent = [row(10 + n, pulled=60 * US_PER_S, pulled_by="mail", topic="mail") for n in range(3)]
    by_cause = {cause.cause: cause for cause in made([*ON_TIME, *slow, *absent]).causes}
    assert [each.name for each in by_cause["slow"].groups] == ["billing", "audit"]
    said = [each.words for one in why(sample_report(causes=[*by_cause.values()])) for each in one.reasons]
    assert said == [
        "with a slow consumer of groups billing (75%) and audit (25%), up to 1s",
        "waited while nobody was pulling for group mail, up to 1m",
    ]


HOUR_US = 3_600 * US_PER_S


def test_what_a_move_of_the_clock_skipped_is_no_wait_for_a_consumer() -> None:
    """A clock move of two hours delivers messages at their due times; they are received at its end."""
    moves = [(-HOUR_US, 2 * HOUR_US)]
    at_end = 2 * HOUR_US - 2 * FAST
    received = [row(n, pulled=at_end + 5, acked=FAST) for n in range(20)]
    assert found([*ON_TIME, *received], moves=moves) == []
    stages = {one.stage: one.max_us for one in made(received, moves=moves).stages if one.dimension == "total"}
    assert (stages["delivered-pulled"], stages["pulled-acked"]) == (5, FAST)
    never = [row(n, pulled=None) for n in range(5)]
    assert found([*ON_TIME, *never], moves=moves) == []
    in_two = [row(n, pulled=4 * HOUR_US, acked=FAST) for n in range(20)]
    assert found([*ON_TIME, *in_two], moves=[*moves, (2 * HOUR_US, 4 * HOUR_US)]) == []


def test_a_slow_consumer_is_slow_beside_a_moved_clock() -> None:
    received = [row(n, pulled=HOUR_US + 2 * US_PER_S, acked=US_PER_S, pulled_by="billing") for n in range(20)]
    (cause,) = made([*ON_TIME, *received], moves=[(-HOUR_US, HOUR_US)]).causes
    assert (cause.cause, cause.max_us) == ("absent", 3 * US_PER_S + 2 * FAST)


def test_a_fault_holds_messages_up_while_the_clock_is_moved() -> None:
    """A receive is refused, then the clock is moved."""
    received = [row(n, pulled=HOUR_US, acked=FAST, pulled_by="g") for n in range(20)]
    (cause,) = made([*ON_TIME, *received], struck=[strike(3 * FAST)], moves=[(4 * FAST, HOUR_US)]).causes
    assert (cause.cause, cause.fault, cause.max_us) == ("fault", "deaf", HOUR_US - FAST + FAST)


def test_messages_of_a_broker_that_was_down_hit_no_injected_fault() -> None:
    held = [row(n, woke=5 * US_PER_S, fault="broker-b down") for n in range(3)]
    (cause,) = made([*ON_TIME, *held]).causes
    (said,) = why(sample_report(causes=[cause]))
    assert said.reasons[0].words == "waited while broker-b was down, up to 5s"


WAITING = [row(n, pulled=12 * US_PER_S, pulled_by="g") for n in range(20)]


def test_a_fault_that_refused_pulls_explains_idle_consumers() -> None:
    refused = [strike(n * US_PER_S) for n in (0, 4, 8)]
    tables = made([*ON_TIME, *WAITING], struck=refused)
    (cause,) = tables.causes
    assert (cause.at, cause.cause, cause.fault, cause.messages) == ("consumer", "fault", "deaf", 20)
    (said,) = why(sample_report(causes=[cause]))
    assert said.reasons[0].words == (
        "hit the injected fault deaf: 3 receives of g refused, up to 12s"
        " (66.7% by the fault, up to 8s; 33.3% by the consumer, up to 4s)"
    )


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(strike(US_PER_S, topic="payments"), id="another topic"),
        pytest.param(strike(US_PER_S, store="b1"), id="another store"),
        pytest.param(strike(US_PER_S, "ack"), id="an acknowledgement"),
        pytest.param(strike(11 * US_PER_S), id="the shorter part of the wait"),
        pytest.param(strike(-US_PER_S), id="before"),
        pytest.param(strike(13 * US_PER_S), id="afterwards"),
    ],
)
def test_unrelated_fault_is_not_the_cause(other: dict[str, Any]) -> None:
    assert found([*ON_TIME, *WAITING], [other]) == [("consumer", "absent", 20)]


def test_occasional_fault_does_not_explain_a_slow_consumer() -> None:
    slow = [row(n, pulled=n * US_PER_S, acked=FAST) for n in range(2, 30)]
    some = [strike(n * US_PER_S + 7, do="close") for n in range(0, 30, 5)]
    by_cause = {cause: messages for _, cause, messages in found([*ON_TIME, *slow], some)}
    assert by_cause["slow"] > 20


def test_messages_drained_long_after_a_fault_were_held_up_too() -> None:
    late = [row(n, pulled=(10 + n) * US_PER_S, acked=FAST) for n in range(5)]
    assert found([*ON_TIME, *late], [strike(US_PER_S)]) == [("consumer", "fault", 5)]


def test_fault_explains_a_late_acknowledgement() -> None:
    again = [row(n, acked=30 * US_PER_S, pulled_by="g") for n in range(4)]
    never = [row(10 + n, acked=None, pulled_by="g") for n in range(3)]
    struck = strike(US_PER_S, "ack", "never", topic=None)
    assert found([*ON_TIME, *again, *never], [struck]) == [("consumer", "fault", 7)]
    assert found([*ON_TIME, *never]) == []  # a consumer that never acknowledges is not late
    of_others = strike(US_PER_S, "ack", "never", topic=None, group="others")
    assert found([*ON_TIME, *again, *never], [of_others]) == [("consumer", "slow", 4)]


def test_lost_receive_answer_explains_late_acknowledgements() -> None:
    lost = [row(n, acked=30 * US_PER_S) for n in range(4)]
    assert found([*ON_TIME, *lost], [strike(3 * FAST, do="close")]) == [("consumer", "fault", 4)]
    assert found([*ON_TIME, *lost], [strike(3 * FAST, do="refuse")]) == [("consumer", "slow", 4)]


def test_retries_are_received_by_the_name_of_their_topic() -> None:
    retries = [each | {"topic": "%RETRY%g"} for each in WAITING]
    assert found([*ON_TIME, *retries], [strike(US_PER_S)]) == [("consumer", "fault", 20)]


@pytest.mark.parametrize("to_us", [None, DUE_US + 10 * US_PER_S])
@pytest.mark.parametrize("who", ["broker", "name-server"])
def test_an_outage_is_the_cause_of_lateness_during_it(who: str, to_us: int | None) -> None:
    away = strike(
        -5 * US_PER_S,
        "every request",
        f"{who}-away",
        "gone",
        topic=None,
        group=None,
        to_us=to_us,
    )
    (cause,) = made([*ON_TIME, *WAITING], struck=[away]).causes
    assert (cause.cause, cause.fault, cause.messages) == ("fault", "gone", 20)
    lasted = "15s" if to_us else "10m5s"
    (said,) = why(sample_report(causes=[cause]))
    assert said.reasons[0].words == (
        f"hit the injected fault gone: the {who.replace('-', ' ')} was down for {lasted}, up to 12s"
    )
    slow = [row(n, acked=30 * US_PER_S) for n in range(3)]
    if to_us:  # the consumer continued after the outage
        assert found([*ON_TIME, *slow], [away]) == [("consumer", "slow", 3)]


def test_consumers_without_data_are_omitted() -> None:
    rows = [row(n, pulled=None) | {"picked_us": None} for n in range(5)]
    ledger = ledger_of(rows, [RUN | {"version": "unknown"}], [])
    assert tables_of(ledger).causes == []
    late = [each | {"delivered_us": DUE_US + US_PER_S} for each in rows]
    assert [each.cause for each in tables_of(ledger_of(late, [RUN | {"version": "unknown"}], [])).causes] == [
        "unknown"
    ]


CAUSES = [
    Cause(
        at="delivery", cause="line", fault="", messages=81, share=0.81, max_us=2_000_000, due_together=5_001
    ),
    Cause(
        at="delivery",
        cause="fault",
        fault="slow <disk>",
        messages=19,
        share=0.19,
        max_us=5_000_000,
        due_together=3,
    ),
    Cause(at="consumer", cause="absent", fault="", messages=7, share=1, max_us=60_000_000, due_together=0),
]


def test_every_output_format_shows_the_cause() -> None:
    report = sample_report(causes=CAUSES)
    console = Console(width=120, file=io.StringIO(), record=True)
    console.print(summary(report))
    texts = (html(report), markdown(report), console.export_text())
    for text in texts:
        assert "queued behind up to 5,000 others due in the same second, up to 2s" in text
        assert "waited while nobody was pulling, up to 1m" in text
        for share in ("81%", "19%", "100%"):
            assert share in text
        assert text.index("81%") < text.index("19%")
    assert "hit the injected fault slow &lt;disk&gt;" in texts[0]
    assert "████████████████" in texts[1] and "████████████████" in texts[2]
    assert 'style="width: 81.0%; background: var(--c1)"' in texts[0]
