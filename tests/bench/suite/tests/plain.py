"""Orders that reach their consumers, with what was sent with them."""

import json
import threading

import pytest

from tests.bench.suite.driver import Driver
from tests.bench.suite.names import BILLING, GIFTS, LARGE, ORDERS, SHIPPING
from tests.bench.suite.shop import Shop


def test_billing_gets_an_order(shop: Shop, order: str) -> None:
    sent_id = shop.place(order)
    [message] = shop.wait_for(BILLING, order)
    assert (message.message_id, message.topic, message.delivery_attempt) == (sent_id, ORDERS, 1)


@pytest.mark.parametrize(
    "note", ["leave at the door", "请放在门口", "x" * 1_000_000], ids=["en", "zh", "large"]
)
def test_an_order_keeps_its_body(shop: Shop, order: str, note: str) -> None:
    shop.place(order, note=note)
    [message] = shop.wait_for(BILLING, order)
    assert json.loads(message.body) == {"order": order, "note": note}


def test_an_order_keeps_its_properties(shop: Shop, order: str) -> None:
    shop.place(order, tag="gift")
    [message] = shop.wait_for(BILLING, order)
    assert (message.tag, list(message.keys), message.properties["shop"]) == ("gift", [order], "berlin")


def test_a_hundred_orders_are_billed_once(shop: Shop, broker: Driver, order: str) -> None:
    orders = [f"{order}-{number}" for number in range(100)]
    for each in orders:
        shop.place_later(each)
    for each in orders:
        shop.wait_for(BILLING, each)
    broker.pass_quietly(0)
    assert [len(shop.received(BILLING, each)) for each in orders] == [1] * 100


def test_orders_of_several_threads_are_billed(shop: Shop, order: str) -> None:
    orders = [f"{order}-{number}" for number in range(8)]
    threads = [threading.Thread(target=shop.place, args=(each,)) for each in orders]
    for thread in threads:
        thread.start()
    for each in orders:
        shop.wait_for(BILLING, each)
    for thread in threads:
        thread.join()


def test_gifts_are_wrapped_and_nothing_else(shop: Shop, order: str, other_order: str) -> None:
    shop.place(order)
    shop.place(other_order, tag="gift")
    shop.wait_for(GIFTS, other_order)
    shop.wait_for(SHIPPING, order)
    assert shop.received(GIFTS, order) == []


def test_large_orders_are_reviewed_and_no_others(shop: Shop, order: str, other_order: str) -> None:
    shop.place(order, total=99)
    shop.place(other_order, total=101)
    shop.wait_for(LARGE, other_order)
    shop.wait_for(SHIPPING, order)
    assert shop.received(LARGE, order) == []
