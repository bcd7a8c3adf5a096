"""The judge of consumption in order finds every violation; otherwise the crash tests would prove nothing."""

from collections.abc import Sequence

import pytest

from tests.crash.order import OrderJudge, Place

QUEUE = 3
NOW_MS, HIDDEN_MS = 10_000, 30_000


@pytest.fixture
def judge() -> OrderJudge:
    return OrderJudge()


def receive(judge: OrderJudge, *offsets: int, by_ms: int = NOW_MS, queue: int = QUEUE) -> None:
    judge.received(queue, [*offsets], by_ms=by_ms, hidden_until_ms=by_ms + HIDDEN_MS)


def settle(judge: OrderJudge, *offsets: int) -> None:
    places = [Place(QUEUE, offset) for offset in offsets]
    judge.settling(places)
    for place in places:
        judge.settled(place)


def verdict(judge: OrderJudge, end: int = 0, dead: Sequence[str] = ()) -> list[str]:
    return judge.verdict({QUEUE: end}, dead)


def test_a_correct_run_has_no_faults(judge: OrderJudge) -> None:
    receive(judge, 0, 1)
    receive(judge, 0, queue=QUEUE + 1)
    settle(judge, 0)
    receive(judge, 1, 2, by_ms=NOW_MS + HIDDEN_MS)  # 1 is no longer in flight
    settle(judge, 1, 2)
    receive(judge, 3)
    settle(judge, 3)
    assert judge.verdict({QUEUE: 4}, []) == []


def test_a_message_that_overtakes_another_is_found(judge: OrderJudge) -> None:
    receive(judge, 0)
    settle(judge, 0)
    receive(judge, 2)
    assert judge.faults == ["queue 3 gave 2 before 1"]


def test_a_batch_with_a_gap_is_found(judge: OrderJudge) -> None:
    receive(judge, 0, 2)
    assert judge.faults == ["queue 3 gave 2 before 1"]


@pytest.mark.parametrize("offsets", [(1, 0), (0, 0)])
def test_a_batch_out_of_order_is_found(judge: OrderJudge, offsets: tuple[int, int]) -> None:
    receive(judge, *offsets)
    assert f"queue 3 gave {offsets[1]} after {offsets[0]}" in judge.faults


@pytest.mark.parametrize("by_ms", [NOW_MS, NOW_MS + HIDDEN_MS - 1])
def test_a_receive_while_a_message_is_in_flight_is_found(judge: OrderJudge, by_ms: int) -> None:
    receive(judge, 0, 1)
    settle(judge, 0)
    receive(judge, 1, by_ms=by_ms)
    assert judge.faults == ["queue 3 gave [1] while 1 was in flight"]


def test_the_rest_of_a_batch_is_in_flight_while_its_first_message_is_retried(judge: OrderJudge) -> None:
    receive(judge, 0, 1)
    judge.retrying(Place(QUEUE, 0), NOW_MS + 1_000)
    receive(judge, 0, by_ms=NOW_MS + 1_000)
    assert judge.faults == ["queue 3 gave [0] while 1 was in flight"]


@pytest.mark.parametrize(("by_ms", "is_early"), [(NOW_MS + 999, True), (NOW_MS + 1_000, False)])
def test_a_retry_that_comes_early_is_found(judge: OrderJudge, by_ms: int, is_early: bool) -> None:
    receive(judge, 0)
    judge.retrying(Place(QUEUE, 0), NOW_MS + 1_000)
    receive(judge, 0, by_ms=by_ms)
    assert bool(judge.faults) == is_early


def test_a_message_that_comes_again_after_it_was_settled_is_found(judge: OrderJudge) -> None:
    receive(judge, 0)
    settle(judge, 0)
    receive(judge, 0, 1)
    assert judge.faults == ["queue 3 gave 0 again after it was settled"]


def test_an_unanswered_settlement_may_have_taken_effect_or_not(judge: OrderJudge) -> None:
    receive(judge, 0)
    judge.settling([Place(QUEUE, 0)])
    receive(judge, 0, 1)
    assert verdict(judge, 1) == []
    receive(judge, 1, by_ms=NOW_MS + HIDDEN_MS)
    assert judge.faults == []


def test_a_refused_settlement_lets_nothing_pass(judge: OrderJudge) -> None:
    receive(judge, 0)
    judge.settling([Place(QUEUE, 0)])
    judge.refused(Place(QUEUE, 0))
    receive(judge, 1)
    assert "queue 3 gave 1 before 0" in judge.faults


def test_a_settlement_that_was_refused_for_one_consumer_may_be_another_ones(judge: OrderJudge) -> None:
    for _ in range(2):
        judge.settling([Place(QUEUE, 0)])
    judge.refused(Place(QUEUE, 0))
    receive(judge, 1)
    assert judge.faults == []


def test_messages_that_never_came_are_found(judge: OrderJudge) -> None:
    receive(judge, 0)
    settle(judge, 0)
    assert verdict(judge, 3) == ["queue 3 never gave 1", "queue 3 never gave 2"]


@pytest.mark.parametrize(
    ("dead", "fault"),
    [
        (["a"], []),
        (["a", "b"], []),
        (["b"], ["dead letter a was lost"]),
        (["a", "a"], ["dead letter a was stored twice"]),
        (["a", "c"], ["dead letter c was consumed"]),
    ],
)
def test_dead_letters_are_kept_once(judge: OrderJudge, dead: list[str], fault: list[str]) -> None:
    for message_id in "ab":
        judge.burying(message_id)
    judge.buried("a")
    assert verdict(judge, 0, dead) == fault
