"""Two groups that each get every order, and instances that share those of a group."""

from tests.bench.suite.driver import Driver
from tests.bench.suite.names import BILLING, ORDERS, SHIPPING
from tests.bench.suite.shop import Shop


def test_each_group_gets_the_order(shop: Shop, order: str) -> None:
    sent_id = shop.place(order)
    for group in (BILLING, SHIPPING):
        [message] = shop.wait_for(group, order)
        assert message.message_id == sent_id


def test_a_failure_of_one_group_is_not_the_others(shop: Shop, broker: Driver, order: str) -> None:
    shop.fail(BILLING, order, 1)
    shop.place(order)
    broker.pass_retries(ORDERS, BILLING, order, until="acknowledged")
    shop.wait_for(BILLING, order, 2)
    assert len(shop.received(SHIPPING, order)) == 1


def test_both_groups_may_fail(shop: Shop, broker: Driver, order: str) -> None:
    for group in (BILLING, SHIPPING):
        shop.fail(group, order, 1)
    shop.place(order)
    for group in (BILLING, SHIPPING):
        broker.pass_retries(ORDERS, group, order, until="acknowledged")
    for group in (BILLING, SHIPPING):
        shop.wait_for(group, order, 2)


def test_two_instances_share_a_group(shop: Shop, broker: Driver, order: str) -> None:
    second = shop.consumer(BILLING)
    try:
        orders = [f"{order}-{number}" for number in range(20)]
        for each in orders:
            shop.place(each)
        for each in orders:
            shop.wait_for(BILLING, each)
        broker.pass_quietly(0)
        assert [len(shop.received(BILLING, each)) for each in orders] == [1] * 20
    finally:
        second.shutdown()
