"""Injected faults for tests; docs/faults.md lists their kinds. A reset removes them."""

from __future__ import annotations

from mocketmq.client.answer import JsonObject
from mocketmq.client.blocking import BlockingClient
from mocketmq.client.operations import Operations

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""


class BlockingFaults:
    """The fault rules for plain tests."""

    def __init__(self, broker: BlockingClient) -> None:
        self._broker = broker

    def __call__(self) -> list[JsonObject]:
        """Return all fault rules with their counts."""
        return BlockingClient.faults(self._broker)

    def add(self, do: str, /, **rule: object) -> JsonObject:
        """Inject the fault ``do``, such as ``refuse``, from now on; ``rule`` has the rule's other fields."""
        return self._broker.add_fault(do, **rule)

    def remove(self, name: str) -> JsonObject:
        """Remove a rule. Messages that it held are delivered, and ports that it closed are opened."""
        return self._broker.delete_fault(name)

    def clear(self) -> list[JsonObject]:
        """Remove all rules."""
        return self._broker.clear_faults()


class AsyncFaults:
    """The fault rules for async tests."""

    def __init__(self, broker: Operations) -> None:
        self._broker = broker

    async def __call__(self) -> list[JsonObject]:
        """Return all fault rules with their counts."""
        return await Operations.faults(self._broker)

    async def add(self, do: str, /, **rule: object) -> JsonObject:
        """Inject the fault ``do``, such as ``refuse``, from now on; ``rule`` has the rule's other fields."""
        return await self._broker.add_fault(do, **rule)

    async def remove(self, name: str) -> JsonObject:
        """Remove a rule. Messages that it held are delivered, and ports that it closed are opened."""
        return await self._broker.delete_fault(name)

    async def clear(self) -> list[JsonObject]:
        """Remove all rules."""
        return await self._broker.clear_faults()
