"""A broker that is away: no order is placed meanwhile, and none is lost."""

import time
from contextlib import suppress
from typing import Final

import pytest

from tests.bench.suite.driver import Driver
from tests.bench.suite.names import BILLING, ORDERS
from tests.bench.suite.shop import PATIENCE_S, Shop

_AGAIN_S: Final = 0.1


def _place_when_back(shop: Shop, order: str) -> None:
    """Place an order, again and again until the client is connected to the broker."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with suppress(Exception):  # the SDK's own errors, of several kinds
            shop.place(order)
            return
        time.sleep(_AGAIN_S)
    raise AssertionError("the broker is not back")


def test_no_order_is_placed_while_the_broker_is_away(
    shop: Shop, broker: Driver, order: str, other_order: str
) -> None:
    with broker.away(), pytest.raises(Exception):  # noqa: B017 - several kinds, without a common one
        shop.place(order)
    _place_when_back(shop, other_order)
    shop.wait_for(BILLING, other_order)


def test_an_order_from_before_the_outage_is_retried_after(shop: Shop, broker: Driver, order: str) -> None:
    shop.fail(BILLING, order, 1)
    shop.place(order)
    shop.wait_for(BILLING, order)
    with broker.away():
        pass
    _place_when_back(shop, f"{order}-next")
    broker.pass_retries(ORDERS, BILLING, order, until="acknowledged")
    shop.wait_for(BILLING, order, 2)
