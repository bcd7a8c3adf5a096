"""Building a broker sets every part that the broker declares."""

from mocketmq.broker.broker import Broker
from tests.support.brokers import running_broker


async def test_open_broker_has_every_part() -> None:
    async with running_broker() as broker:
        assert vars(broker).keys() == Broker.__annotations__.keys()
