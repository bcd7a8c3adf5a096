"""An application with rocketmq-python-client and a broker in one process; prints what it received.

Its arguments are modules, imported in their order.
"""

import asyncio
import importlib
import sys
import threading
from queue import SimpleQueue

from mocketmq import Settings, running_emulator

for name in sys.argv[1:]:
    importlib.import_module(name)
rocketmq = sys.modules["rocketmq"]
addresses: SimpleQueue[str] = SimpleQueue()


async def serve() -> None:
    settings = Settings(data=":memory:", http_port=0, namesrv_port=0, broker_port=0, grpc_port=0)
    async with running_emulator(settings) as emulator:
        assert emulator.grpc_address
        addresses.put(emulator.grpc_address)
        await asyncio.Event().wait()


threading.Thread(target=asyncio.run, args=(serve(),), daemon=True).start()
configuration = rocketmq.ClientConfiguration(addresses.get(), rocketmq.Credentials(), request_timeout=30)
producer = rocketmq.Producer(configuration, ("orders",))
producer.startup()
message = rocketmq.Message()
message.topic, message.body = "orders", b"hello"
producer.send(message)
consumer = rocketmq.SimpleConsumer(configuration, "billing", {"orders": rocketmq.FilterExpression()}, 5)
consumer.startup()
while not (received := consumer.receive(1, 15)):
    pass
consumer.ack(received[0])
sys.stdout.write(received[0].body.decode())
consumer.shutdown()
producer.shutdown()
