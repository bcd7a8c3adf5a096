"""How the queues of a topic are shared out among brokers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.message.broker_share import ALONE, BrokerShare, broker_names
from mocketmq.message.names import MAX_BROKERS, SCHEDULE_TOPIC, TEMPLATE_TOPIC, TRACE_TOPIC

BROKERS = st.integers(1, MAX_BROKERS)


def shares(brokers: int) -> list[BrokerShare]:
    return [BrokerShare(broker_names(brokers), position) for position in range(brokers)]


def test_names_go_on_in_the_alphabet() -> None:
    assert broker_names(3) == ("broker-a", "broker-b", "broker-c")
    assert ALONE.names == broker_names(1)


@given(BROKERS, st.integers(1, 20))
def test_every_queue_has_one_broker_and_one_id_there(brokers: int, queues: int) -> None:
    numbers = range(brokers * queues)
    found: dict[int, str] = {}
    for share in shares(brokers):
        own = share.own_queues("orders", numbers)
        assert [share.queue_id("orders", number) for number in own] == list(range(queues))
        assert [share.number_of("orders", queue_id) for queue_id in range(queues)] == list(own)
        assert [number for number in numbers if share.has_queue("orders", number)] == list(own)
        found |= dict.fromkeys(own, share.name)
    assert found == {number: shares(brokers)[0].name_of(number) for number in numbers}


@given(BROKERS, st.integers(0, 20), st.integers(0, 20))
def test_numbers_stay_when_a_topic_grows(brokers: int, queues: int, more: int) -> None:
    for share in shares(brokers):
        before = share.own_queues("orders", range(brokers * queues))
        assert share.own_queues("orders", range(brokers * (queues + more)))[:queues] == before


@pytest.mark.parametrize("topic", [SCHEDULE_TOPIC, "TRANS_CHECK_MAX_TIME_TOPIC", "%HALF%orders"])
def test_topics_that_only_the_broker_fills_are_not_shared_out(topic: str) -> None:
    for share in shares(2):
        assert share.own_queues(topic, range(3)) == range(3)
        assert (share.number_of(topic, 1), share.queue_id(topic, 1)) == (1, 1)
        assert share.has_queue(topic, 1)


@pytest.mark.parametrize("topic", ["%RETRY%billing", "%DLQ%billing", TEMPLATE_TOPIC, TRACE_TOPIC])
def test_topics_of_clients_are_shared_out(topic: str) -> None:
    assert [share.own_queues(topic, range(4)) for share in shares(2)] == [range(0, 4, 2), range(1, 4, 2)]


def test_a_negative_id_stays() -> None:
    for share in shares(2):
        assert (share.number_of("orders", -1), share.queue_id("orders", -1)) == (-1, -1)
