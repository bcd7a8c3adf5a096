"""Orders that a consumer fails to handle: they come again, and become dead letters in the end."""

import pytest

from tests.bench.suite.driver import Driver
from tests.bench.suite.names import BILLING, ORDERS, SHIPPING
from tests.bench.suite.shop import Shop

RETRIES = 16


@pytest.mark.parametrize("times", [1, 3])
def test_a_failed_order_comes_again(shop: Shop, broker: Driver, order: str, times: int) -> None:
    shop.fail(BILLING, order, times)
    shop.place(order)
    broker.pass_retries(ORDERS, BILLING, order, until="acknowledged")
    attempts = [message.delivery_attempt for message in shop.wait_for(BILLING, order, times + 1)]
    assert attempts == list(range(1, times + 2))


def test_a_retry_is_the_same_message(shop: Shop, broker: Driver, order: str) -> None:
    shop.fail(BILLING, order, 1)
    sent_id = shop.place(order, tag="gift", total=5)
    broker.pass_retries(ORDERS, BILLING, order, until="acknowledged")
    first, second = shop.wait_for(BILLING, order, 2)
    assert first.message_id == second.message_id == sent_id
    assert (first.body, first.tag, first.properties["shop"]) == (
        second.body,
        second.tag,
        second.properties["shop"],
    )


def test_a_failed_order_holds_no_other_up(shop: Shop, broker: Driver, order: str, other_order: str) -> None:
    shop.fail(BILLING, order, 1)
    shop.place(order)
    shop.wait_for(BILLING, order)
    shop.place(other_order)
    shop.wait_for(BILLING, other_order)
    assert len(shop.received(BILLING, order)) == 1
    broker.pass_retries(ORDERS, BILLING, order, until="acknowledged")
    shop.wait_for(BILLING, order, 2)


def test_an_order_that_always_fails_is_dead_after_sixteen_retries(
    shop: Shop, broker: Driver, order: str
) -> None:
    shop.fail(BILLING, order, RETRIES + 1)
    shop.place(order)
    broker.pass_retries(ORDERS, BILLING, order, until="dead")
    attempts = [message.delivery_attempt for message in shop.wait_for(BILLING, order, RETRIES + 1)]
    assert attempts == list(range(1, RETRIES + 2))


def test_an_order_that_is_dead_at_one_group_is_handled_by_the_other(
    shop: Shop, broker: Driver, order: str
) -> None:
    shop.fail(SHIPPING, order, RETRIES + 1)
    shop.place(order)
    broker.pass_retries(ORDERS, SHIPPING, order, until="dead")
    shop.wait_for(SHIPPING, order, RETRIES + 1)
    assert len(shop.received(BILLING, order)) == 1
