"""Building a broker: no part that it declares is left out."""

from mocketmq.broker.broker import Broker
from tests.support.brokers import running_broker


async def test_every_part_is_there_once_the_broker_is_open() -> None:
    async with running_broker() as broker:
        assert vars(broker).keys() == Broker.__annotations__.keys()
