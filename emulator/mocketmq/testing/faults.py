"""The broker's faults in the hands of a test; docs/faults.md lists them. A reset clears them."""

from mocketmq.client.answer import JsonObject
from mocketmq.client.blocking import BlockingClient
from mocketmq.client.operations import Operations

__tracebackhide__ = True
"""pytest shows the line of the test that called, instead of what is here."""


class Faults:
    """For plain tests."""

    def __init__(self, broker: BlockingClient) -> None:
        self._broker = broker

    def __call__(self) -> list[JsonObject]:
        """Every rule, with its counts."""
        return BlockingClient.faults(self._broker)

    def add(self, do: str, /, **rule: object) -> JsonObject:
        """Let something go wrong from now on: ``refuse``, for instance, with the rest of its rule."""
        return self._broker.add_fault(do, **rule)

    def remove(self, name: str) -> JsonObject:
        """End a fault. What it held is delivered, and ports are opened."""
        return self._broker.delete_fault(name)

    def clear(self) -> list[JsonObject]:
        """End all of them."""
        return self._broker.clear_faults()


class AsyncFaults:
    """For async tests: the same, to be awaited."""

    def __init__(self, broker: Operations) -> None:
        self._broker = broker

    async def __call__(self) -> list[JsonObject]:
        """Every rule, with its counts."""
        return await Operations.faults(self._broker)

    async def add(self, do: str, /, **rule: object) -> JsonObject:
        """Let something go wrong from now on: ``refuse``, for instance, with the rest of its rule."""
        return await self._broker.add_fault(do, **rule)

    async def remove(self, name: str) -> JsonObject:
        """End a fault. What it held is delivered, and ports are opened."""
        return await self._broker.delete_fault(name)

    async def clear(self) -> list[JsonObject]:
        """End all of them."""
        return await self._broker.clear_faults()
