"""The pytest plugin: fixtures for a broker, which each pytest-xdist worker runs in a separate process.

pytest imports this package in every project where mocketmq is installed, so the package imports nothing
eagerly. Its names are for type hints: ``def test_it(mocketmq: Broker)``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mocketmq.testing.async_broker import AsyncBroker
    from mocketmq.testing.broker import Broker

__all__ = ["AsyncBroker", "Broker"]

if not TYPE_CHECKING:  # hidden from type checkers, for which an unknown name must stay an error
    _HOMES = {"AsyncBroker": "mocketmq.testing.async_broker", "Broker": "mocketmq.testing.broker"}

    def __getattr__(name):
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
