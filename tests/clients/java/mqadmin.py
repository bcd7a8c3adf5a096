"""RocketMQ's command line, ``mqadmin``, as an operator uses it."""

import re
from typing import Any

from mocketmq.remoting.wire import fastjson
from tests.clients.remoting.driver import Driver

_TRACE = re.compile(r"^\tat org\.apache\.rocketmq\.", re.MULTILINE)


class MqadminError(Exception):
    """The command printed an error."""


class Mqadmin:
    """The command line; ``version`` is the client's name on the compatibility page."""

    def __init__(self, driver: Driver, name_server: str, version: str) -> None:
        self.version = version
        self._driver = driver
        self._name_server = name_server

    def at(self, name_server: str) -> "Mqadmin":
        """Return the command line for another broker."""
        return Mqadmin(self._driver, name_server, self.version)

    async def __call__(self, command: str, *arguments: str) -> str:
        """Run a command, and return its output. Raises MqadminError if it contains an exception."""
        printed: str = await self._driver.call(
            "run", arguments=[command, "-n", self._name_server, *arguments]
        )
        if _TRACE.search(printed):
            raise MqadminError(printed)
        return printed

    async def call(self, call: str, **arguments: object) -> Any:
        """Call the driver for other operations than commands. Raises ClientError."""
        return await self._driver.call(call, name_server=self._name_server, **arguments)

    async def json(self, command: str, *arguments: str) -> Any:
        """Run a command, and parse its output in RocketMQ's dialect of JSON."""
        return fastjson.loads((await self(command, *arguments)).encode())
