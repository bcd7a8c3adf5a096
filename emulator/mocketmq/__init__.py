"""mocketmq: RocketMQ for test environments.

The names in ``__all__`` are the public API. Only these names are stable between versions. Each is imported on
first use, so that ``import mocketmq`` costs nothing and ``mocketmq.Client`` imports only what a client needs.

Two distributions share this package. ``mocketmq-client`` has this file, ``client``, ``testing`` and the
modules that they import. It has no dependencies and runs on Python 3.9. ``mocketmq`` adds the broker.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mocketmq.app import Emulator, running_emulator
    from mocketmq.client.answer import BrokerError, UnreachableError, body_of
    from mocketmq.client.asynchronous import Client
    from mocketmq.client.blocking import BlockingClient
    from mocketmq.client.expecting import Like
    from mocketmq.client.messaging import MessageOptions, outgoing
    from mocketmq.errors import (
        EmulatorError,
        InvalidArgumentError,
        ListenError,
        SettingError,
        StoreError,
        StoreLockedError,
        StoreUnavailableError,
        StoreUnreadableError,
    )
    from mocketmq.settings import GroupDeclaration, Settings, TopicDeclaration
    from mocketmq.settings_sources import load_settings

__version__ = "0.1.0"
DEFAULT_URL = "http://127.0.0.1:9877"
"""Address of the JSON API with default settings, which clients use by default."""

__all__ = [  # noqa: RUF022 - grouped by subject
    "__version__",
    # clients of the JSON API
    "DEFAULT_URL", "Client", "BlockingClient", "MessageOptions", "Like", "outgoing", "body_of",
    "BrokerError", "UnreachableError",
    # a broker in this process
    "Emulator", "running_emulator", "Settings", "TopicDeclaration", "GroupDeclaration", "load_settings",
    # errors of clients and brokers
    "EmulatorError", "InvalidArgumentError", "ListenError", "SettingError",
    "StoreError", "StoreLockedError", "StoreUnavailableError", "StoreUnreadableError",
]  # fmt: skip

if not TYPE_CHECKING:  # hidden from type checkers, for which an unknown name must stay an error
    _HOMES = {
        "mocketmq.app": {"Emulator", "running_emulator"},
        "mocketmq.client.answer": {"BrokerError", "UnreachableError", "body_of"},
        "mocketmq.client.asynchronous": {"Client"},
        "mocketmq.client.blocking": {"BlockingClient"},
        "mocketmq.client.expecting": {"Like"},
        "mocketmq.client.messaging": {"MessageOptions", "outgoing"},
        "mocketmq.errors": {
            *("EmulatorError", "InvalidArgumentError", "ListenError", "SettingError"),
            *("StoreError", "StoreLockedError", "StoreUnavailableError", "StoreUnreadableError"),
        },
        "mocketmq.settings": {"GroupDeclaration", "Settings", "TopicDeclaration"},
        "mocketmq.settings_sources": {"load_settings"},
    }

    def __getattr__(name):
        for home, names in _HOMES.items():
            if name in names:
                try:
                    return getattr(import_module(home), name)
                except ModuleNotFoundError as error:
                    if error.name != home:
                        raise
                    message = f"mocketmq.{name} needs the broker, which is not installed here"
                    raise ModuleNotFoundError(message, name=home) from None
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})
