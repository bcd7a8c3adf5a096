"""Steps of deliveries, which the service handles in order."""

import json

from tests.bench.suite.names import TRACKING
from tests.bench.suite.shop import Shop


def _steps(shop: Shop, order: str) -> list[str]:
    return [json.loads(message.body)["step"] for message in shop.received(TRACKING, order)]


def test_the_steps_of_an_order_come_in_order(shop: Shop, order: str) -> None:
    steps = ["packed", "sent", "customs", "delivered"]
    for step in steps:
        shop.step(order, step)
    shop.wait_for(TRACKING, order, len(steps))
    assert _steps(shop, order) == steps


def test_two_orders_keep_their_own_order(shop: Shop, order: str, other_order: str) -> None:
    for step in "abcdefgh":
        shop.step(order, step)
        shop.step(other_order, step)
    for each in (order, other_order):
        shop.wait_for(TRACKING, each, 8)
        assert _steps(shop, each) == list("abcdefgh")


def test_a_failed_step_is_retried_before_the_next(shop: Shop, order: str) -> None:
    shop.fail(TRACKING, order, 1)
    shop.step(order, "packed")
    shop.step(order, "sent")
    shop.wait_for(TRACKING, order, 3)
    assert _steps(shop, order) == ["packed", "packed", "sent"]


def test_fifty_steps_come_in_order(shop: Shop, order: str) -> None:
    steps = [str(number) for number in range(50)]
    for step in steps:
        shop.step(order, step)
    shop.wait_for(TRACKING, order, len(steps))
    assert _steps(shop, order) == steps
