"""A channel: one client's connection, as handlers and the broker know it."""

import itertools
from collections.abc import Callable, Iterator

from emulator.broker.clients import Moved
from emulator.remoting.codes import RequestCode
from emulator.remoting.command import Command
from emulator.remoting.fastjson import dumps, object_keys
from emulator.remoting.identity import BROKER


class Channel:
    """Addresses are ``host:port``.

    ``remote`` is the client's; ``advertised`` the broker's, as this client can reach it; ``store_host`` the
    same as IPv4, which records and message ids need.
    """

    def __init__(
        self, write: Callable[[Command], None], remote: str, advertised: str, store_host: str
    ) -> None:
        self.remote = remote
        self.advertised = advertised
        self.store_host = store_host
        self._write = write
        self._opaques = itertools.count()

    def notify_members_changed(self, group: str) -> None:
        """Let the client rebalance its queues of the group now (sheet 8.1)."""
        self.ask(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})

    def reset_offsets(self, moved: Moved, language: str) -> None:
        """Let the client's group go on elsewhere. C++ clients read another form than others (sheet 2.6)."""
        ext = {
            "topic": moved.topic,
            "group": moved.group,
            "timestamp": str(moved.timestamp_ms),
            "isForce": str(moved.is_forced).lower(),
        }
        table: object = object_keys(queue_offsets(moved))
        if language == "CPP":
            table = [{**queue, "offset": offset} for queue, offset in queue_offsets(moved)]
        self.ask(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext, dumps({"offsetTable": table}))

    def ask(self, code: RequestCode, ext: dict[str, str], body: bytes = b"") -> None:
        """Send the client a request that it does not answer."""
        self._write(Command.oneway(code, next(self._opaques), ext, body))


def queue_offsets(moved: Moved) -> Iterator[tuple[dict[str, str | int], int]]:
    """The offsets by queues as clients name them."""
    for queue_id, offset in moved.offsets.items():
        yield {"brokerName": BROKER, "queueId": queue_id, "topic": moved.topic}, offset
