"""Operations on the brokers and name servers of the cluster."""

from __future__ import annotations

from typing import Literal

from mocketmq.client.answer import JsonObject
from mocketmq.client.api_calls import ApiCalls, Duration, api_path, duration_text, entries_of, given
from mocketmq.errors import InvalidArgumentError

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""


class Clustering(ApiCalls):
    """Operations on the brokers and name servers of the cluster."""

    # Brokers of the cluster

    async def brokers(self) -> list[JsonObject]:
        """Return the brokers with their states."""
        return entries_of(await self._get(api_path("brokers")), "brokers")

    async def crash_broker(self, name: str, *, loses: Duration | None = None) -> JsonObject:
        """Crash a broker. Routes list it for another 120 s on the broker's clock.

        ``loses`` selects the messages that the broker loses: a duration for the messages stored within that
        time before the crash, by the broker's clock; ``"nothing"``; or ``"unreplicated"`` for the messages
        that the slave does not have yet. The default is the setting ``crash_loses``. The result has the
        number of ``lost`` messages.
        """
        body = given(loses=None if loses is None else _crash_loss_text(loses))
        return await self._call("POST", api_path("brokers", name, "crash"), body)

    async def shut_down_broker(self, name: str) -> JsonObject:
        """Shut a broker down, which removes it from all routes at once."""
        return await self._call("POST", api_path("brokers", name, "shutdown"))

    async def promote_slave(self, name: str) -> JsonObject:
        """Make the slave of a broker its master, at the slave's address.

        A running broker becomes the slave at once. A broker that is down or cut off becomes the slave when it
        is started again. The result has the number of ``lost`` messages, which the slave did not have.
        """
        return await self._call("POST", api_path("brokers", name, "promote"))

    async def start_broker(self, name: str) -> JsonObject:
        """Start a broker again. It then delivers the messages that became due while it was down."""
        return await self._call("POST", api_path("brokers", name, "start"))

    async def wipe_broker(self, name: str) -> JsonObject:
        """Delete all messages and offsets of a broker that is down, as if its disk were lost."""
        return await self._call("POST", api_path("brokers", name, "wipe"))

    async def cut_off_broker(self, name: str, side: Literal["clients", "name-servers"]) -> JsonObject:
        """Cut a broker off from its clients, which then get no responses, or from the name servers."""
        return await self._call("POST", api_path("brokers", name, f"cut-off-from-{side}"))

    async def reconnect_broker(self, name: str) -> JsonObject:
        """Reconnect a broker that is cut off."""
        return await self._call("POST", api_path("brokers", name, "reconnect"))

    async def set_broker_read_only(self, name: str, *, read_only: bool = True) -> JsonObject:
        """Make a broker read-only, or writable again. Its routes change at once."""
        return await self._call("POST", api_path("brokers", name, "read-only" if read_only else "writable"))

    # Name servers of the cluster

    async def name_servers(self) -> list[JsonObject]:
        """Return the name servers, with the brokers that each lists."""
        return entries_of(await self._get(api_path("name-servers")), "name_servers")

    async def stop_name_server(self, number: int) -> JsonObject:
        """Stop the name server with this number, counted from 1."""
        return await self._change_name_server(number, "stop")

    async def start_name_server(self, number: int) -> JsonObject:
        """Start a name server again."""
        return await self._change_name_server(number, "start")

    async def freeze_name_server(self, number: int) -> JsonObject:
        """Freeze a name server, so that it ignores all further changes to brokers."""
        return await self._change_name_server(number, "freeze")

    async def hide_broker(self, number: int, broker: str) -> JsonObject:
        """Make a name server omit a broker."""
        return await self._change_name_server(number, "hide", broker)

    async def keep_broker(self, number: int, broker: str) -> JsonObject:
        """Make a name server list a broker, even while the broker is down."""
        return await self._change_name_server(number, "keep", broker)

    async def correct_name_server(self, number: int) -> JsonObject:
        """Make a name server list all brokers correctly again."""
        return await self._change_name_server(number, "correct")

    async def _change_name_server(self, number: int, *action: str) -> JsonObject:
        return await self._call("POST", api_path("name-servers", str(number), *action))


def _crash_loss_text(loses: Duration) -> str:
    if loses in ("nothing", "unreplicated"):
        return str(loses)
    try:
        return duration_text(loses, "loses")
    except InvalidArgumentError:
        allowed = "nothing, unreplicated, or a duration such as 200ms, up to 1h"
        raise InvalidArgumentError("loses", loses, allowed) from None
