"""Payments: messages of transactions, decided by the service or when the broker asks back."""

import pytest

from tests.bench.suite.driver import Driver
from tests.bench.suite.names import ACCOUNTING
from tests.bench.suite.shop import Shop

CHECK_BACK_S = 66
"""RocketMQ's default time-out of transactions, and interval of its checks, in seconds."""


def test_a_committed_payment_is_booked(shop: Shop, order: str) -> None:
    shop.begin_payment(order).commit()
    shop.wait_for(ACCOUNTING, order)


def test_a_rolled_back_payment_is_not_booked(shop: Shop, broker: Driver, order: str) -> None:
    shop.begin_payment(order).rollback()
    broker.pass_quietly(CHECK_BACK_S)
    assert shop.received(ACCOUNTING, order) == []


def test_a_payment_is_not_booked_before_its_commit(shop: Shop, order: str, other_order: str) -> None:
    open_payment = shop.begin_payment(order)
    shop.begin_payment(other_order).commit()
    shop.wait_for(ACCOUNTING, other_order)
    assert shop.received(ACCOUNTING, order) == []
    open_payment.commit()
    shop.wait_for(ACCOUNTING, order)


def test_the_broker_asks_back_and_a_payment_is_booked(shop: Shop, broker: Driver, order: str) -> None:
    shop.paid.add(order)
    shop.begin_payment(order)
    broker.pass_time(CHECK_BACK_S)
    shop.wait_for(ACCOUNTING, order)


def test_the_broker_asks_back_and_a_payment_is_dropped(shop: Shop, broker: Driver, order: str) -> None:
    shop.begin_payment(order)
    broker.pass_quietly(CHECK_BACK_S)
    assert shop.received(ACCOUNTING, order) == []


@pytest.mark.parametrize("count", [10])
def test_each_of_several_payments_is_booked_once(shop: Shop, broker: Driver, order: str, count: int) -> None:
    orders = [f"{order}-{number}" for number in range(count)]
    for each in orders:
        shop.begin_payment(each).commit()
    for each in orders:
        shop.wait_for(ACCOUNTING, each)
    broker.pass_quietly(0)
    assert [len(shop.received(ACCOUNTING, each)) for each in orders] == [1] * count
