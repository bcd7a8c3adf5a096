"""Opens Aliyun's HTTP protocol. Imports the handlers at the first request, because most brokers get none."""

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Final

from mocketmq.access.access import Access
from mocketmq.broker.broker import Broker
from mocketmq.http_api import web
from mocketmq.http_api.bodies import Bodies
from mocketmq.http_api.listener import RoutedResponse
from mocketmq.settings import Settings

if TYPE_CHECKING:
    from mocketmq_compat.aliyun_http.door import AliyunDoor

SEGMENT: Final = "topics"
"""First segment of this protocol's paths."""


class LateDoor:
    """Passes requests to an :class:`AliyunDoor`, which is created at the first one."""

    def __init__(self, broker: Broker, settings: Settings, access: Access | None, bodies: Bodies) -> None:
        self._parts = broker, settings, access, bodies
        broker.faults.declare("aliyun", self._operations)

    def _operations(self) -> Iterable[str]:
        return self._door.operations

    @cached_property
    def _door(self) -> "AliyunDoor":
        from mocketmq_compat.aliyun_http.door import AliyunDoor  # noqa: PLC0415 - rarely used

        return AliyunDoor(*self._parts)

    async def answer(self, request: web.BaseRequest) -> RoutedResponse:
        """Handle a request. Raises only CancelledError, when the client disconnects."""
        return await self._door.answer(request)
