"""Orders that are cancelled when they are not paid within half an hour, and reminders."""

import pytest

from tests.bench.suite.driver import Driver
from tests.bench.suite.names import CANCELLING, TIMEOUTS
from tests.bench.suite.session import HALF_AN_HOUR_S
from tests.bench.suite.shop import Shop


def test_an_unpaid_order_is_cancelled(shop: Shop, broker: Driver, order: str) -> None:
    shop.expect_payment(order)
    broker.pass_time(HALF_AN_HOUR_S)
    shop.wait_for(CANCELLING, order)
    assert shop.cancelled.count(order) == 1


def test_an_order_is_not_cancelled_before(shop: Shop, broker: Driver, order: str) -> None:
    shop.expect_payment(order)
    broker.pass_time(HALF_AN_HOUR_S - 60)
    assert shop.received(CANCELLING, order) == []
    broker.pass_time(60)
    shop.wait_for(CANCELLING, order)


def test_a_paid_order_is_kept(shop: Shop, broker: Driver, order: str) -> None:
    shop.expect_payment(order)
    shop.paid.add(order)
    broker.pass_time(HALF_AN_HOUR_S)
    shop.wait_for(CANCELLING, order)
    assert order not in shop.cancelled


def test_a_recalled_timeout_never_comes(shop: Shop, broker: Driver, order: str) -> None:
    shop.recall(shop.expect_payment(order))
    broker.pass_quietly(HALF_AN_HOUR_S)
    assert shop.received(CANCELLING, order) == []


def test_a_hundred_orders_are_cancelled(shop: Shop, broker: Driver, order: str) -> None:
    orders = [f"{order}-{number}" for number in range(100)]
    for each in orders:
        shop.expect_payment(each)
    broker.pass_time(HALF_AN_HOUR_S)
    for each in orders:
        shop.wait_for(CANCELLING, each)
    assert set(orders) <= set(shop.cancelled)


def test_a_timeout_is_retried_until_the_order_is_cancelled(shop: Shop, broker: Driver, order: str) -> None:
    shop.fail(CANCELLING, order, 1)
    shop.expect_payment(order)
    broker.pass_time(HALF_AN_HOUR_S)
    broker.pass_retries(TIMEOUTS, CANCELLING, order, until="acknowledged")
    shop.wait_for(CANCELLING, order, 2)
    assert shop.cancelled.count(order) == 1


@pytest.mark.parametrize("delay_s", [10, 600, 86_400], ids=["10s", "10m", "1d"])
def test_a_reminder_comes_when_it_is_due(shop: Shop, broker: Driver, order: str, delay_s: int) -> None:
    shop.expect_payment(order, broker.delay_s(delay_s))
    broker.pass_time(delay_s)
    shop.wait_for(CANCELLING, order)
