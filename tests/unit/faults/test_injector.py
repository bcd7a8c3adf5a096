"""When a rule fires, what delays it draws, and which rules are refused."""

from random import Random
from typing import Any, get_args

import pytest
from msgspec import UNSET

from mocketmq.errors import InvalidArgumentError
from mocketmq.faults.injector import FaultInjector, RequestAttributes
from mocketmq.faults.rule import OF_OUTAGES, OF_REPLICATION, FaultRule, Kind, lateness

S = 1_000_000
NEEDED: dict[str, dict[str, Any]] = {
    "refuse": {"error": "SYSTEM_BUSY"},
    "late": {"by": "1s"},
    "deliver-late": {"by": "1s"},
    "deliver-shuffled": {"by": "1s"},
    "throttle": {"per_second": 1},
    "replicate-late": {"by": "1s"},
}
SEND = RequestAttributes("remoting", ("send", "SEND_MESSAGE_V2"), "orders", "makers", ("c1", "127.0.0.1:5"))


def fault(do: str = "close", **fields: Any) -> FaultInjector:
    return FaultInjector(FaultRule(do=do, **fields), "f", 0)  # type: ignore[arg-type]


def fired(one: FaultInjector, n: int = 12) -> list[int]:
    """Return for which of the next n matches the rule fires, counted from 1."""
    return [number for number in range(1, n + 1) if one.fires(S)]


def test_a_rule_fires_for_all_matches_the_next_ones_or_every_nth() -> None:
    assert fired(fault(), 3) == [1, 2, 3]
    spent = fault(next=2)
    assert fired(spent, 5) == [1, 2]
    assert (spent.matched, spent.fired, spent.state(S)) == (2, 2, "spent")
    every = fault(every=3)
    assert fired(every, 10) == [3, 6, 9]
    assert (every.matched, every.fired, every.state(S)) == (10, 3, "active")


def test_the_same_seed_has_the_same_faults_and_another_one_others() -> None:
    one, same, other = (fault(probability=0.4, seed=seed) for seed in (7, 7, 8))
    chosen = fired(one, 100)
    assert fired(same, 100) == chosen != fired(other, 100)
    assert 20 < len(chosen) < 60
    assert fired(fault(probability=0), 20) == []


@pytest.mark.parametrize("do", sorted(set(get_args(Kind)) - OF_OUTAGES - OF_REPLICATION))
def test_each_kind_fires_by_its_seed_alone(do: str) -> None:
    fields = NEEDED.get(do, {})
    runs = [fired(fault(do, probability=0.5, seed=seed, **fields), 60) for seed in (3, 3, 4)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("do", ["late", "deliver-late", "deliver-shuffled", "deliver-again"])
@pytest.mark.parametrize("by", ["uniform(1s, 1h)", "normal(1h, 5m)", "exponential(1h)", ["1s", "2s", "3s"]])
def test_each_lateness_is_drawn_by_its_seed_alone(do: str, by: str | list[str]) -> None:
    def drawn_by(seed: int) -> list[int]:
        one = fault(do, by=by, seed=seed)
        return [one.draw_us() for _ in range(30) if one.fires(S)]

    assert drawn_by(3) == drawn_by(3) != drawn_by(4)


def test_the_same_seed_continues_after_a_restart_where_it_was() -> None:
    whole, after = fault(probability=0.5), fault(probability=0.5)
    chosen = fired(whole, 40)
    after.matched = 20
    assert [20 + number for number in fired(after, 20)] == [number for number in chosen if number > 20]


def test_a_rule_is_at_work_between_two_instants_of_the_clock() -> None:
    one = fault(from_ms=2_000, lasts="3s")
    assert [one.state(second * S) for second in (1, 2, 4, 5)] == ["waiting", "active", "active", "over"]
    assert [second for second in range(7) if one.fires(second * S)] == [2, 3, 4]
    assert one.matched == 3


@pytest.mark.parametrize(
    ("fields", "is_match"),
    [
        ({}, True),
        ({"door": "remoting", "operation": "send", "topic": "orders"}, True),
        ({"operation": "SEND_MESSAGE_V2", "group": "makers", "client": "c1"}, True),
        ({"topic": "ord*", "client": "127.0.0.1*"}, True),
        ({"door": "http"}, False),
        ({"operation": "receive"}, False),
        ({"topic": "order"}, False),
        ({"group": "takers"}, False),
        ({"client": "c2"}, False),
    ],
)
def test_a_rule_matches_by_door_operation_topic_group_and_client(
    fields: dict[str, str], is_match: bool
) -> None:
    assert fault(**fields).matches(SEND) is is_match


def test_a_rule_about_a_topic_matches_no_request_without_one() -> None:
    assert not fault(topic="*").matches(SEND._replace(topic=None))


def test_a_full_disk_fails_every_write() -> None:
    words = [("send",), ("give-back",), ("end-transaction",), ("receive",), ("ack",)]
    full = [fault("disk-full").matches(SEND._replace(operations=each)) for each in words]
    assert full == [True, True, True, False, False]
    read_only = [fault("read-only").matches(SEND._replace(operations=each)) for each in words]
    assert read_only == [True, False, False, False, False]


def drawn(by: str | list[str], n: int = 300) -> list[int]:
    draw, random = lateness(by), Random(1)
    return [draw(random) for _ in range(n)]


def test_lateness_is_a_constant_a_distribution_or_drawn_from_a_record() -> None:
    assert set(drawn("1.5s")) == {1_500_000}
    uniform = drawn("uniform(1s, 5s)")
    assert S <= min(uniform) < 2 * S
    assert 4 * S < max(uniform) <= 5 * S
    assert 1_900_000 < sum(drawn("normal(2s, 500ms)")) / 300 < 2_100_000
    assert 1_600_000 < sum(drawn("exponential(2s)")) / 300 < 2_400_000
    assert set(drawn(["10ms", "31s"])) == {10_000, 31 * S}
    assert min(drawn("normal(0, 1s)")) == 0


@pytest.mark.parametrize(
    ("do", "fields", "field"),
    [
        ("refuse", {}, "error"),
        ("late", {}, "by"),
        ("refuse", {"error": "SYSTEM_BUSI"}, "error"),
        ("close", {"error": "SYSTEM_BUSY"}, "error"),
        ("read-only", {"operation": "send"}, "operation"),
        ("late", {"by": "soon"}, "by"),
        ("late", {"by": "uniform(5s, 1s)"}, "by"),
        ("late", {"by": "normal(5s)"}, "by"),
        ("late", {"by": "gauss(5s)"}, "by"),
        ("close", {"lasts": "1s", "to_ms": 5}, "lasts"),
        ("close", {"from_ms": 5, "to_ms": 5}, "to_ms"),
        ("close", {"lasts": "long"}, "lasts"),
        ("broker-away", {"back_after": "uniform(5s, 1s)"}, "back_after"),
        ("name-server-away", {"probability": 0.5}, "probability"),
    ],
)
def test_a_rule_with_a_field_that_has_no_effect_or_is_wrong_is_refused(
    do: str, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        fault(do, **fields)
    assert refused.value.field == field


def test_the_broker_is_away_for_requests_by_http_once_its_ports_are_shut() -> None:
    away, sent = fault("broker-away"), SEND._replace(door="http")
    assert not away.matches(sent)
    away.recount(1, 1)
    assert (away.matches(sent), away.matches(SEND)) == (True, False)


@pytest.mark.parametrize("do", ["broker-away", "name-server-away"])
def test_the_same_seed_ends_an_outage_after_the_same_time(do: str) -> None:
    def draws(seed: int) -> int:
        away = fault(do, back_after="uniform(1s, 1h)", seed=seed)
        away.recount(1, 1)
        return away.draw_us()

    assert draws(7) == draws(7) != draws(8)


def test_a_misspelt_error_is_guessed() -> None:
    with pytest.raises(InvalidArgumentError, match="SYSTEM_BUSY\\?"):
        fault("refuse", error="SYSTEM_BUSI")


@pytest.mark.parametrize(
    ("door", "first", "last"),
    [
        (UNSET, "SYSTEM_ERROR", "TopicNotExist"),
        ("http", "SYSTEM_ERROR", "TopicNotExist"),
        ("aliyun", "AccessDenied", "ILLEGAL_OPERATION"),
    ],
)
@pytest.mark.parametrize("error", [UNSET, "nonsense"])
def test_the_errors_are_listed_those_of_the_door_first(door: Any, error: Any, first: str, last: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        fault("refuse", door=door, error=error)
    names = refused.value.allowed.partition(";")[0].split(", ")
    assert (names[0], names[-1]) == (first, last)
    assert {"SYSTEM_BUSY", "QpsLimitExceeded"} < {*names}
    for name in names:
        fault("refuse", door=door, error=name)


@pytest.mark.parametrize("do", sorted(NEEDED))
def test_a_missing_field_is_named_with_its_allowed_values(do: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"is missing; allowed: .{{20,}}; do '{do}' requires it$"):
        fault(do)


def test_a_rule_without_a_name_gets_one() -> None:
    assert FaultRule(do="close").name is UNSET
